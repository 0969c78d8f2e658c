// SPDX-License-Identifier: Apache-2.0
#include "execute/encoded_space.h"

#include <algorithm>

namespace unisono {
namespace {

uint32_t end_of(ChunkRange chunks) {
  return chunks.first + chunks.count;
}

// No slice, and no chunk of one, is longer than its fair share and two boundaries.
size_t longest_part(size_t count, size_t parts) {
  return count / parts + 2 * 64;
}

}  // namespace

EncodedSpace::EncodedSpace(const Plan& plan) : plan_(plan) {
  const Schedule& schedule = plan.schedule;
  if (plan.codec == nullptr || plan.slices == 0) return;
  const size_t slice = longest_part(plan.count, plan.slices);
  slot_bytes_ = schedule.chunks * plan.codec->wire_size(longest_part(slice, schedule.chunks));
  slice_of_.resize(plan.depth);
  offsets_.resize(plan.depth * (size_t{schedule.chunks} + 1));
  slots_.resize(plan.depth * schedule.encoded_slots * slot_bytes_);
  size_t most_operands = 0;
  for (const Step& step : schedule.steps)
    most_operands = std::max<size_t>(most_operands, step.peer_count + size_t{2});
  operands_.reserve(most_operands);
}

void EncodedSpace::start_slice(uint32_t context, size_t slice) {
  slice_of_[context] = slice;
  const uint32_t chunks = plan_.schedule.chunks;
  size_t* const offsets = &offsets_[context * (size_t{chunks} + 1)];
  for (uint32_t chunk = 0; chunk < chunks; ++chunk)
    offsets[chunk + 1] = offsets[chunk] + plan_.codec->wire_size(elements(context, chunk).count());
}

size_t EncodedSpace::bytes(uint32_t context, ChunkRange chunks) const {
  return offset(context, end_of(chunks)) - offset(context, chunks.first);
}

std::byte* EncodedSpace::address(uint32_t context, Place place, ChunkRange chunks) {
  const size_t slot = context * plan_.schedule.encoded_slots + place.slot;
  return &slots_[slot * slot_bytes_] + offset(context, chunks.first);
}

void EncodedSpace::encode(uint32_t context, const Step& step, const std::byte* values,
                          const Residuals& residuals) {
  float* const residual = step.residual == Residual::kNone     ? nullptr
                          : step.residual == Residual::kWorker ? residuals.worker
                                                               : residuals.owner;
  for (uint32_t chunk = step.chunks.first; chunk < end_of(step.chunks); ++chunk) {
    const ElementRange range = elements(context, chunk);
    if (range.count() == 0) continue;
    plan_.codec->encode(values + range.begin * sizeof(float),
                        residual == nullptr ? nullptr : residual + range.begin, range.count(),
                        address(context, step.target, {chunk, 1}));
  }
}

void EncodedSpace::decode(uint32_t context, const Step& step, std::byte* values) {
  for (uint32_t chunk = step.chunks.first; chunk < end_of(step.chunks); ++chunk) {
    const ElementRange range = elements(context, chunk);
    if (range.count() == 0) continue;
    plan_.codec->decode(address(context, step.source, {chunk, 1}), range.count(), 0, range.count(),
                        values + range.begin * sizeof(float));
  }
}

void EncodedSpace::fold(uint32_t context, const Step& step, std::byte* result,
                        std::span<const Operand> operands) {
  const ReduceOp op = plan_.op == ReduceOp::kAvg && !step.finishes ? ReduceOp::kSum : plan_.op;
  for (uint32_t chunk = step.chunks.first; chunk < end_of(step.chunks); ++chunk) {
    const ElementRange range = elements(context, chunk);
    if (range.count() == 0) continue;
    const size_t in_message = offset(context, chunk) - offset(context, step.chunks.first);
    operands_.clear();
    for (const Operand& operand : operands) {
      const size_t at =
          operand.encoded ? in_message : (range.begin - operand.first) * sizeof(float);
      operands_.push_back({static_cast<const std::byte*>(operand.data) + at, operand.encoded});
    }
    fold_encoded(*plan_.codec, op, result + range.begin * sizeof(float), operands_, range.count(),
                 step.finishes ? plan_.divisor : 1);
  }
}

}  // namespace unisono
