// SPDX-License-Identifier: Apache-2.0
// Direct form of sharded_ps and one_shot where all ranks map the buffers of all: every rank reduces its share
// of the vector from everyone's input into everyone's output. Nothing is staged: each element is read p times
// and written p times, 2p accesses against 5p − 2, and there are two flags: entered (buffers.h) and finished.
//
// The share of a rank is read and written by that rank alone, so in place is no special case. A rank ends
// when all have finished: then its output is complete, and nobody reads its input.
#include <algorithm>
#include <array>
#include <cstring>

#include "algorithms/direct/forms.h"
#include "direct/buffers.h"
#include "schedule/schedule.h"

namespace unisono {
namespace {

constexpr int kMostRanks = 64;
constexpr size_t kLeastBytes = size_t{8} << 10;    // below, the lines and slots of one_shot are quicker
constexpr size_t kPieceBytes = size_t{16} << 10;   // stays in a core's cache from the fold to the copies
constexpr size_t kWorkBytes = size_t{256} << 10;   // between looks at whether a peer has withdrawn

// Whole lines for each rank, so that no two write to one.
ElementRange share_of(const DirectCall& call, int rank) {
  const size_t line = kDirectLine / call.element_size;
  const ElementRange lines = elements_of({static_cast<uint32_t>(rank), 1}, static_cast<uint32_t>(call.size()),
                                         (call.count + line - 1) / line);
  return {std::min(lines.begin * line, call.count), std::min(lines.end * line, call.count)};
}

void reduce_piece(const DirectCall& call, std::span<const MappedBuffers> buffers, size_t begin, size_t count) {
  const size_t offset = begin * call.element_size;
  std::array<const void*, kMostRanks> inputs;
  for (size_t rank = 0; rank < buffers.size(); ++rank) inputs[rank] = buffers[rank].input + offset;
  std::byte* const result = buffers[static_cast<size_t>(call.rank)].output + offset;
  call.finish(result, inputs.data(), buffers.size(), count, call.divisor);
  for (int distance = 1; distance < call.size(); ++distance) {
    const auto peer = static_cast<size_t>((call.rank + distance) % call.size());
    std::memcpy(buffers[peer].output + offset, result, count * call.element_size);
  }
}

// False: a peer has withdrawn its buffers, and the call cannot end well.
bool reduce_share(const DirectCall& call) {
  const TouchingPeers touching(call);
  std::array<MappedBuffers, kMostRanks> buffers;
  for (int rank = 0; rank < call.size(); ++rank) buffers[static_cast<size_t>(rank)] = buffers_of(call, rank);
  const ElementRange share = share_of(call, call.rank);
  const size_t piece = kPieceBytes / call.element_size, work = kWorkBytes / call.element_size;
  for (size_t begin = share.begin; begin < share.end; begin += piece) {
    if ((begin - share.begin) % work == 0 && !touching.allowed()) return false;
    reduce_piece(call, std::span(buffers).first(call.blocks.size()), begin, std::min(piece, share.end - begin));
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
    call.ring = true;
  }
  for (; call.peer < call.size(); ++call.peer) {
    if (call.peer == call.rank || has_entered(call, call.peer, DirectBlock::kFinishedLine)) continue;
    call.ring = false;  // only the last one to finish wakes the others
    return false;
  }
  return true;
}

bool serves(const DirectShape& shape) {
  return shape.bytes >= kLeastBytes && shape.ranks <= kMostRanks;
}

}  // namespace

constinit const DirectForm mapped_form = {
    "mapped", "everyone reduces its share from all inputs into all outputs", serves, no_turns, advance, true};

}  // namespace unisono
