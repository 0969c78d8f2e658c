// SPDX-License-Identifier: Apache-2.0
// Direct form of sharded_ps and one_shot where all ranks map the buffers of all: every rank reduces
// its share of the vector from everyone's input into everyone's output. Nothing is staged: each
// element is read p times and written p times, 2p accesses against 5p − 2, and there are two flags:
// entered (buffers.h) and finished.
//
// The share of a rank is read and written by that rank alone, so in place is no special case. A
// rank ends when all have finished: then its output is complete, and nobody reads its input.
#include <algorithm>
#include <array>
#include <span>

#include "algorithms/direct/forms.h"
#include "direct/buffers.h"
#include "schedule/schedule.h"

namespace unisono {
namespace {

// Bytes of a share. Below, one_shot's single flag is quicker than two.
constexpr size_t kLeastShare = size_t{4} << 10;
constexpr size_t kPieceBytes = size_t{256} << 10;  // between looks at whether a peer has withdrawn

// Whole lines for each rank, so that no two write to one.
ElementRange share_of(const DirectCall& call) {
  const size_t line = kDirectLine / call.element_size;
  const ElementRange lines =
      elements_of({static_cast<uint32_t>(call.rank), 1}, static_cast<uint32_t>(call.size()),
                  (call.count + line - 1) / line);
  return {std::min(lines.begin * line, call.count), std::min(lines.end * line, call.count)};
}

// False: a peer has withdrawn its buffers, and the call cannot end well.
bool reduce_share(const DirectCall& call) {
  const TouchingPeers touching(call);
  const auto ranks = static_cast<size_t>(call.size());
  const ElementRange share = share_of(call);
  std::array<const void*, kMostRanks> input_room;
  std::array<void*, kMostRanks> output_room;
  const auto inputs = std::span(input_room).first(ranks);
  const auto outputs = std::span(output_room).first(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    const MappedBuffers buffers = buffers_of(call, static_cast<int>(rank));
    inputs[rank] = buffers.input + share.begin * call.element_size;
    outputs[rank] = buffers.output + share.begin * call.element_size;
  }
  const size_t piece = kPieceBytes / call.element_size;
  for (size_t begin = share.begin; begin < share.end; begin += piece) {
    if (!touching.allowed()) return false;
    call.spread(outputs.data(), inputs.data(), ranks, std::min(piece, share.end - begin),
                call.divisor, call.streams);
    for (const void*& input : inputs) input = static_cast<const std::byte*>(input) + kPieceBytes;
    for (void*& output : outputs) output = static_cast<std::byte*>(output) + kPieceBytes;
  }
  return true;
}

enum Phase : uint32_t { kReduce, kAwaitFinished };

bool advance(DirectCall& call) {
  if (call.phase == kReduce) {
    if (!reduce_share(call)) return false;
    DirectBlock& mine = *call.blocks[static_cast<size_t>(call.rank)];
    publish(mine.lines[call.sequence & 1][DirectBlock::kFinishedLine].word, call.entry_word());
    call.phase = kAwaitFinished;
    call.peer = 0;
  }
  if (!all_published(call, DirectBlock::kFinishedLine)) return false;
  call.ring = true;  // who sleeps waits for the last one to finish, which does not sleep
  return true;
}

bool serves(const DirectShape& shape) {
  return shape.bytes >= kLeastShare * static_cast<size_t>(shape.ranks) && shape.ranks <= kMostRanks;
}

}  // namespace

constinit const DirectForm mapped_form = {
    "mapped", "everyone reduces its share from all inputs into all outputs", serves, no_turns, advance, true};

}  // namespace unisono
