// SPDX-License-Identifier: Apache-2.0
// Speed of the reduction kernels and conversions, beside what memory allows.
//
// Sizes: 8 KiB a vector stays in L1, 256 KiB in L2, 64 MiB in no cache. Bytes are those that a
// kernel must move: every input read once, the output written once.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/types.h"
#include "buffer.h"
#include "kernels/convert.h"
#include "kernels/reduce.h"

namespace unisono {
namespace {

constexpr int64_t kInL1 = 8 << 10, kInL2 = 256 << 10, kInMemory = 64 << 20;

void set_bytes(benchmark::State& state, int64_t bytes) {
  state.SetBytesProcessed(state.iterations() * bytes);
}

// One pass over memory by the C library: the limit for a kernel of one input.
void stream_copy(benchmark::State& state) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  const BenchBuffer from(bytes), to(bytes, 0, 1024);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  set_bytes(state, 2 * state.range(0));
}

// a[i] = b[i] + c[i] as the compiler vectorises it: the usual limit for a kernel of two inputs.
void stream_add(benchmark::State& state) {
  const size_t bytes = static_cast<size_t>(state.range(0)), count = bytes / sizeof(float);
  const BenchBuffer a(bytes), b(bytes, 0, 1024), c(bytes, 0, 2048);
  for (auto _ : state) {
    float* out = a.as<float>();
    const float *left = b.as<float>(), *right = c.as<float>();
    for (size_t i = 0; i < count; ++i) out[i] = left[i] + right[i];
    benchmark::ClobberMemory();
  }
  set_bytes(state, 3 * state.range(0));
}

// `offset`: where vectors begin in their cache lines; malloc gives 16 to large ones.
void reduce(benchmark::State& state, DataType type, ReduceOp op, size_t n, size_t offset) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  std::vector<std::unique_ptr<BenchBuffer>> vectors;
  std::vector<const void*> inputs;
  for (size_t k = 0; k <= n;
       ++k) {  // 1 KiB apart in their pages, as few are by chance on top of each other
    vectors.push_back(std::make_unique<BenchBuffer>(bytes, 1, offset + 1024 * (k % 4)));
    if (k > 0) inputs.push_back(vectors[k]->data());
  }
  const ReduceKernel kernel = reduce_kernel(type, op);
  const uint32_t divisor = op == ReduceOp::kAvg ? static_cast<uint32_t>(n) : 1;
  for (auto _ : state) {
    kernel(vectors[0]->data(), inputs.data(), n, bytes / size_of(type), divisor);
    benchmark::ClobberMemory();
  }
  set_bytes(state, static_cast<int64_t>(n + 1) * state.range(0));
}

void convert(benchmark::State& state, DataType half, bool widen) {
  const size_t count = static_cast<size_t>(state.range(0)) / sizeof(float);
  const BenchBuffer floats(count * 4), halves(count * 2, 0, 1024);
  for (auto _ : state) {
    if (widen)
      to_float32_kernel(half)(floats.data(), halves.data(), count);
    else
      from_float32_kernel(half)(halves.data(), floats.data(), count);
    benchmark::ClobberMemory();
  }
  set_bytes(state, static_cast<int64_t>(count * 6));
}

void register_all() {
  using benchmark::RegisterBenchmark;
  for (int64_t bytes : {kInL1, kInL2, kInMemory}) {
    RegisterBenchmark("stream_copy", stream_copy)->Arg(bytes);
    RegisterBenchmark("stream_add", stream_add)->Arg(bytes);
    for (size_t n : {2, 3, 4, 8}) {
      const std::string name = "reduce/f32/sum/n=" + std::to_string(n);
      RegisterBenchmark(name.c_str(), reduce, DataType::kFloat32, ReduceOp::kSum, n, size_t{0})
          ->Arg(bytes);
      RegisterBenchmark((name + "/offset=16").c_str(), reduce, DataType::kFloat32, ReduceOp::kSum,
                        n, size_t{16})
          ->Arg(bytes);
    }
  }
  for (DataType type : kDataTypes)
    for (ReduceOp op : kReduceOps) {
      const std::string name =
          "reduce/" + std::string(name_of(type)) + "/" + std::string(name_of(op)) + "/n=2";
      RegisterBenchmark(name.c_str(), reduce, type, op, size_t{2}, size_t{0})
          ->Arg(kInL1)
          ->Arg(kInL2);
    }
  for (DataType half : {DataType::kFloat16, DataType::kBfloat16})
    for (bool widen : {false, true}) {
      const std::string name =
          (widen ? "convert/f32_from_" : "convert/from_f32_to_") + std::string(name_of(half));
      RegisterBenchmark(name.c_str(), convert, half, widen)->Arg(kInL1)->Arg(kInMemory);
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
