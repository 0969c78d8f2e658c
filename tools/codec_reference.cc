// SPDX-License-Identifier: Apache-2.0
#include "tools/codec_reference.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/reduce.h"
#include "schedule/quantise.h"
#include "schedule/symbolic_run.h"

namespace unisono {

// A value in numbers, and how far any of them may be from the exact ones.
struct CodecReference::Number {
  std::vector<float> values;
  double bound = 0;
};

CodecReference::CodecReference(const Algorithm& algorithm, const Shape& shape, const Codec* codec,
                               ReduceOp op, CodecLinks links)
    : codec_(codec), op_(op), ranks_(shape.size), values_(shape.size) {
  for (int rank = 0; rank < ranks_; ++rank)
    if (shape.contributes(rank)) contributors_.push_back(rank);
  std::vector<Schedule> schedules = build_all(algorithm, shape);
  if (codec != nullptr)
    schedules = quantise(schedules, shape.contributors(), on_links(links, shape));
  // They are proven elsewhere, so nothing here can fail.
  std::vector<Message> messages;
  [[maybe_unused]] MaybeFinding finding = match_messages(schedules, messages);
  assert(!finding);
  EventGraph graph(schedules, messages, {});
  finding = graph.run();
  assert(!finding);
  SymbolicRun run(schedules, messages, shape.servers, values_, false);
  for (const uint32_t id : graph.order()) {
    finding = run.execute(graph.event(id));
    assert(!finding);
  }
  for (uint32_t chunk = 0; chunk < schedules[0].chunks; ++chunk)
    results_.push_back(run.result(chunk));
}

CodecReference::Number CodecReference::evaluate(Values::Id id, const RankInput& input, size_t first,
                                                size_t count) const {
  const Values::Node& node = values_.node(id);
  switch (node.kind) {
    case Values::Kind::kContribution: {
      Number number{std::vector<float>(count)};
      input(static_cast<int>(node.operands[0]), first, count, number.values.data());
      return number;
    }
    case Values::Kind::kEncoded: {
      Number number = evaluate(node.operands[0], input, first, count);
      number.bound += codec_->error_bound(number.values.data(), count);
      std::vector<std::byte> wire(codec_->wire_size(count));
      codec_->encode(number.values.data(), nullptr, count, wire.data());
      codec_->decode(wire.data(), count, 0, count, number.values.data());
      return number;
    }
    case Values::Kind::kResidual: return evaluate(node.operands[0], input, first, count);
    case Values::Kind::kFold: break;
  }
  return fold(id, input, first, count);
}

CodecReference::Number CodecReference::fold(Values::Id id, const RankInput& input, size_t first,
                                            size_t count) const {
  std::vector<Number> operands;
  std::vector<const void*> data;
  for (const Values::Id operand : values_.node(id).operands)
    operands.push_back(evaluate(operand, input, first, count));
  Number result{std::vector<float>(count)};
  const bool sums = op_ == ReduceOp::kSum || op_ == ReduceOp::kAvg;
  for (const Number& operand : operands) {
    data.push_back(operand.values.data());
    result.bound = sums ? result.bound + operand.bound : std::max(result.bound, operand.bound);
  }
  // Each addition, and a division, is rounded.
  double largest = 0;
  for (size_t i = 0; i < count && sums; ++i) {
    double sum = 0;
    for (const Number& operand : operands) sum += std::fabs(static_cast<double>(operand.values[i]));
    largest = std::max(largest, sum);
  }
  result.bound += 0x1p-24 * static_cast<double>(operands.size()) * largest;
  const bool divides =
      op_ == ReduceOp::kAvg && values_.contributions(id) == static_cast<int>(contributors_.size());
  const auto divisor = divides ? static_cast<uint32_t>(contributors_.size()) : 1;
  const ReduceOp op = op_ == ReduceOp::kAvg && !divides ? ReduceOp::kSum : op_;
  reduce_kernel(DataType::kFloat32, op)(result.values.data(), data.data(), data.size(), count,
                                        divisor);
  result.bound /= divisor;
  return result;
}

void CodecReference::check_part(Values::Id id, const RankInput& input, const float* output,
                                size_t first, size_t count, Verdict& verdict) const {
  const Number expected = evaluate(id, input, first, count);
  std::vector<double> exact;
  std::vector<float> values(count);
  for (const int rank : contributors_) {
    input(rank, first, count, values.data());
    if (exact.empty()) {
      exact.assign(values.begin(), values.end());
      continue;
    }
    for (size_t i = 0; i < count; ++i) {
      const double value = values[i];
      exact[i] = op_ == ReduceOp::kMin   ? std::min(exact[i], value)
                 : op_ == ReduceOp::kMax ? std::max(exact[i], value)
                                         : exact[i] + value;
    }
  }
  const double divisor = op_ == ReduceOp::kAvg ? static_cast<double>(contributors_.size()) : 1;
  Verdict part;
  double largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const double reference = exact[i] / divisor, got = output[first + i];
    double error = got == reference ? 0 : std::fabs(got - reference);
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    part.max_error = std::max(part.max_error, error);
    part.error_squares += error * error;
    part.reference_squares += reference * reference;
    largest = std::max(largest, std::fabs(reference));
    const bool same = std::memcmp(&output[first + i], &expected.values[i], sizeof(float)) == 0;
    if ((same && error <= expected.bound) || part.wrong++ > 0) continue;
    part.first_wrong = first + i;
    part.got = got;
    part.expected = expected.values[i];
  }
  if (expected.bound > 0) {
    part.share_of_bound = part.max_error / expected.bound;
    part.zeros_pass = largest > 0 && largest <= expected.bound;
  }
  verdict.add(part);
}

Verdict CodecReference::check(const RankInput& input, const float* output, size_t count,
                              size_t slices) const {
  Verdict verdict;
  const auto chunks = static_cast<uint32_t>(results_.size());
  for (size_t slice = 0; slice < slices; ++slice) {
    const ElementRange whole =
        elements_of({static_cast<uint32_t>(slice), 1}, static_cast<uint32_t>(slices), count);
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      const ElementRange part = elements_of({chunk, 1}, chunks, whole.count());
      if (part.count() > 0)
        check_part(results_[chunk], input, output, whole.begin + part.begin, part.count(), verdict);
    }
  }
  return verdict;
}

}  // namespace unisono
