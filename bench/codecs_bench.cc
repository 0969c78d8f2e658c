// SPDX-License-Identifier: Apache-2.0
// Speed of every codec, beside a plain loop with the same traffic over memory.
//
// Bytes are those that must move: values and residual read, residual written, the wire read or
// written. `stream_copy` is the limit without, `stream_update` (a residual is rewritten in place)
// with feedback.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "buffer.h"
#include "codecs/codec.h"
#include "kernels/reduce.h"

namespace unisono {
namespace {

constexpr size_t kInMemory = 16 << 20, kInL2 = 64 << 10;  // elements

void set_rates(benchmark::State& state, size_t count, double bytes) {
  const double iterations = static_cast<double>(state.iterations());
  state.counters["elements"] =
      benchmark::Counter(static_cast<double>(count) * iterations, benchmark::Counter::kIsRate);
  state.counters["bytes"] = benchmark::Counter(bytes * iterations, benchmark::Counter::kIsRate);
}

// Values of both signs and many magnitudes.
void fill(const BenchBuffer& buffer, size_t count) {
  for (size_t i = 0; i < count; ++i)
    buffer.as<float>()[i] = std::sin(static_cast<float>(i % 4093) * 1.7f);
}

void stream_copy(benchmark::State& state) {
  const BenchBuffer from(kInMemory * 4), to(kInMemory * 4, 0, 1024);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), kInMemory * 4);
    benchmark::ClobberMemory();
  }
  set_rates(state, kInMemory, 8.0 * kInMemory);
}

void stream_update(benchmark::State& state) {
  const BenchBuffer values(kInMemory * 4), residual(kInMemory * 4, 0, 1024);
  const void* inputs[] = {values.data(), residual.data()};
  const ReduceKernel add = reduce_kernel(DataType::kFloat32, ReduceOp::kSum);
  for (auto _ : state) {
    add(residual.data(), inputs, 2, kInMemory, 1);
    benchmark::ClobberMemory();
  }
  set_rates(state, kInMemory, 12.0 * kInMemory);
}

void encode(benchmark::State& state, const Codec& codec, size_t count, bool feedback) {
  const size_t wire_bytes = codec.wire_size(count);
  const BenchBuffer values(count * 4), residual(count * 4, 0, 1024), wire(wire_bytes, 0, 2048);
  fill(values, count);
  for (auto _ : state) {
    codec.encode(values.data(), feedback ? residual.data() : nullptr, count, wire.data());
    benchmark::ClobberMemory();
  }
  set_rates(state, count, static_cast<double>((feedback ? 12 : 4) * count + wire_bytes));
}

void decode(benchmark::State& state, const Codec& codec, size_t count) {
  const size_t wire_bytes = codec.wire_size(count);
  const BenchBuffer values(count * 4), wire(wire_bytes, 0, 2048);
  fill(values, count);
  codec.encode(values.data(), nullptr, count, wire.data());
  for (auto _ : state) {
    codec.decode(wire.data(), count, 0, count, values.data());
    benchmark::ClobberMemory();
  }
  set_rates(state, count, static_cast<double>(4 * count + wire_bytes));
}

void fold_plain(benchmark::State& state, size_t n) {
  std::vector<std::unique_ptr<BenchBuffer>> vectors;
  std::vector<const void*> inputs;
  for (size_t k = 0; k <= n; ++k) {
    vectors.push_back(std::make_unique<BenchBuffer>(kInL2 * 4, 0, 1024 * (k % 4)));
    if (k > 0) inputs.push_back(vectors[k]->data());
  }
  const ReduceKernel add = reduce_kernel(DataType::kFloat32, ReduceOp::kSum);
  for (auto _ : state) {
    add(vectors[0]->data(), inputs.data(), n, kInL2, 1);
    benchmark::ClobberMemory();
  }
  set_rates(state, kInL2, static_cast<double>(4 * (n + 1) * kInL2));
}

void fold_wire(benchmark::State& state, const Codec& codec, size_t n) {
  const size_t wire_bytes = codec.wire_size(kInL2);
  const BenchBuffer values(kInL2 * 4);
  std::vector<std::unique_ptr<BenchBuffer>> wires;
  std::vector<CodecOperand> operands;
  fill(values, kInL2);
  for (size_t k = 0; k < n; ++k) {
    wires.push_back(std::make_unique<BenchBuffer>(wire_bytes, 0, 1024 * (k % 4)));
    codec.encode(values.data(), nullptr, kInL2, wires[k]->data());
    operands.push_back({wires[k]->data(), true});
  }
  for (auto _ : state) {
    fold_encoded(codec, ReduceOp::kSum, values.data(), operands, kInL2, 1);
    benchmark::ClobberMemory();
  }
  set_rates(state, kInL2, static_cast<double>(4 * kInL2 + n * wire_bytes));
}

void register_all() {
  using benchmark::RegisterBenchmark;
  RegisterBenchmark("stream_copy", stream_copy);
  RegisterBenchmark("stream_update", stream_update);
  RegisterBenchmark("fold/none/n=4", fold_plain, size_t{4});
  for (const Codec* codec : codec_table()) {
    const std::string name(codec->name);
    RegisterBenchmark(("encode/" + name).c_str(), encode, *codec, kInMemory, false);
    RegisterBenchmark(("encode_feedback/" + name).c_str(), encode, *codec, kInMemory, true);
    RegisterBenchmark(("decode/" + name).c_str(), decode, *codec, kInMemory);
    RegisterBenchmark(("fold/" + name + "/n=4").c_str(), fold_wire, *codec, size_t{4});
  }
}

}  // namespace
}  // namespace unisono

int main(int argc, char** argv) {
  unisono::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
