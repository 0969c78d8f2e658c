// SPDX-License-Identifier: Apache-2.0
// The numbering of messages, and edges from overlapping accesses.
#include "schedule/builder.h"

#include <algorithm>
#include <cassert>

namespace unisono {

Builder::Builder(const Shape& shape, uint32_t chunks)
    : shape_(shape),
      values_(chunks, shape.contributes(shape.rank) ? Space::kInput : Space::kNone),
      sent_(shape.size, 0),
      received_(shape.size, 0) {
  schedule_.collective = shape.collective;
  schedule_.rank = shape.rank;
  schedule_.size = shape.size;
  schedule_.chunks = chunks;
}

Space Builder::value_of(ChunkRange chunks) const {
  assert(chunks.count > 0 && chunks.first + chunks.count <= values_.size());
  const Space space = values_[chunks.first];
  for (uint32_t chunk = chunks.first; chunk < chunks.first + chunks.count; ++chunk)
    assert(values_[chunk] == space && "one step's value must lie in one space");
  return space;
}

Builder::StepId Builder::send(std::span<const int> peers, ChunkRange chunks) {
  const Space space = value_of(chunks);
  assert(space != Space::kNone && "nothing to send");
  return add({.kind = StepKind::kSend, .chunks = chunks, .source = {space}}, peers, sent_);
}

Builder::StepId Builder::recv(int peer, ChunkRange chunks) {
  const StepId id = add({.kind = StepKind::kRecv, .chunks = chunks, .target = {Space::kOutput}},
                        std::span(&peer, 1), received_);
  std::fill_n(values_.begin() + chunks.first, chunks.count, Space::kOutput);
  return id;
}

Builder::StepId Builder::recv_reduce(std::span<const int> peers, ChunkRange chunks, Finish finish) {
  const StepId id = add({.kind = StepKind::kRecvReduce,
                         .finishes = finish == Finish::kYes,
                         .chunks = chunks,
                         .target = {Space::kOutput},
                         .source = {value_of(chunks)}},
                        peers, received_);
  std::fill_n(values_.begin() + chunks.first, chunks.count, Space::kOutput);
  return id;
}

void Builder::order(StepId first, StepId then) {
  assert(first < then && then + 1 == schedule_.steps.size());
  Step& step = schedule_.steps[then];
  if (std::ranges::count(schedule_.after_of(step), first) > 0) return;
  schedule_.after.push_back(first);  // the newest step's edges are the last ones
  ++step.after_count;
}

Builder::StepId Builder::add(Step step, std::span<const int> peers,
                             std::vector<uint32_t>& next_message) {
  const StepId id = static_cast<StepId>(schedule_.steps.size());
  step.first_peer = static_cast<uint32_t>(schedule_.peers.size());
  step.peer_count = static_cast<uint32_t>(peers.size());
  for (int peer : peers) {
    assert(peer >= 0 && peer < shape_.size && peer != shape_.rank);
    schedule_.peers.push_back({peer, next_message[peer]++});
  }
  std::ranges::sort(std::span(schedule_.peers).subspan(step.first_peer), {}, &PeerMessage::rank);
  step.first_after = static_cast<uint32_t>(schedule_.after.size());
  accesses_.add(step, id, schedule_.after);
  step.after_count = static_cast<uint32_t>(schedule_.after.size()) - step.first_after;
  schedule_.steps.push_back(step);
  return id;
}

Schedule Builder::build() && {
  std::vector<uint32_t> no_messages;
  for (uint32_t chunk = 0; chunk < schedule_.chunks; ++chunk) {
    if (values_[chunk] != Space::kInput) continue;
    uint32_t end = chunk + 1;
    while (end < schedule_.chunks && values_[end] == Space::kInput) ++end;
    add({.kind = StepKind::kCopy,
         .chunks = {chunk, end - chunk},
         .target = {Space::kOutput},
         .source = {Space::kInput}},
        {}, no_messages);
    chunk = end;
  }
  return std::move(schedule_);
}

}  // namespace unisono
