// SPDX-License-Identifier: Apache-2.0
#include "tools/codec_cost.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "schedule/quantise.h"

namespace unisono {
namespace {

constexpr double kLongEnoughUs = 2000;
constexpr int kLeastRounds = 3, kMostRounds = 50;  // the first one also touches new memory

// The shortest of several rounds.
template <typename Work>
double time_us(Work work) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity(), sum = 0;
  for (int round = 0; round < kLeastRounds || (round < kMostRounds && sum < kLongEnoughUs);
       ++round) {
    const auto begin = Clock::now();
    work();
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    best = std::min(best, us);
    sum += us;
  }
  return best;
}

}  // namespace

CodecCost measure_codec(const Codec& codec, const float* values, size_t count,
                        const Algorithm& algorithm, const Shape& shape, CodecLinks links,
                        uint64_t plain_bytes, uint64_t wire_bytes) {
  CodecCost cost;
  std::vector<std::byte> wire(codec.wire_size(count));
  std::vector<float> decoded(count);
  cost.encode_us = time_us([&] { codec.encode(values, nullptr, count, wire.data()); });
  cost.decode_us = time_us([&] { codec.decode(wire.data(), count, 0, count, decoded.data()); });
  const Schedule schedule = build_quantised(algorithm, shape, on_links(links, shape));
  double work_us = 0;
  for (const Step& step : schedule.steps) {
    const double part = double(step.chunks.count) / schedule.chunks;
    if (step.kind == StepKind::kEncode) work_us += part * cost.encode_us;
    if (step.kind == StepKind::kDecode) work_us += part * cost.decode_us;
    if (step.kind == StepKind::kRecvReduce) work_us += part * step.peer_count * cost.decode_us;
  }
  if (plain_bytes > wire_bytes && work_us > 0)
    cost.break_even_Gbps = double(plain_bytes - wire_bytes) * 8 / (work_us * 1e3);
  return cost;
}

}  // namespace unisono
