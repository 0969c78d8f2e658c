// SPDX-License-Identifier: Apache-2.0
#include "direct/buffers.h"

#include <sched.h>

#include <algorithm>

#include "base/deadline.h"

namespace unisono {
namespace {

using Line = DirectBlock::Line;
constexpr std::chrono::seconds kLongestWait{1};

struct Places {
  DirectMemory::Place input, output;
  bool mapped() const {
    return input != DirectMemory::kPrivate && output != DirectMemory::kPrivate;
  }
};

Line& line_of(const DirectCall& call, int rank) {
  return call.blocks[static_cast<size_t>(rank)]
      ->lines[call.sequence & 1][DirectBlock::kBuffersLine];
}

Places places_of(const DirectCall& call, int rank) {
  Places places;
  std::memcpy(&places, line_of(call, rank).payload, sizeof places);
  return places;
}

Places enter(DirectCall& call) {
  const auto place = [&](const std::byte* data) {
    return call.memory->place_of(call.rank, data, call.bytes());
  };
  const Places mine{place(call.input), place(call.output)};
  Line& line = line_of(call, call.rank);
  std::memcpy(line.payload, &mine, sizeof mine);
  line.word.store(call.entry_word(), std::memory_order_seq_cst);
  return mine;
}

// Whether a peer that has mapped buffers may sleep for my entry. Such a peer stores its word, and
// before it sleeps loads mine behind a fence.
bool someone_waits(const DirectCall& call) {
  return std::ranges::any_of(call.peers, [&](int peer) {
    return line_of(call, peer).word.load(std::memory_order_seq_cst) == call.entry_word() &&
           places_of(call, peer).mapped();
  });
}

}  // namespace

Buffers find_buffers(DirectCall& call) {
  if (call.phase == 0) {
    call.phase = 1;
    if (!enter(call).mapped()) {
      call.ring = someone_waits(call);
      return Buffers::kPrivate;
    }
  }
  bool all = true;
  for (size_t i = call.peers.size(); i-- > 0;) {
    const int peer = call.peers[i];
    if (has_published(call, peer, DirectBlock::kBuffersLine)) {
      if (!places_of(call, peer).mapped()) return Buffers::kPrivate;
      continue;
    }
    has_published(call, peer);  // in another call it may use no line but the first
    call.peer = i;
    all = false;
  }
  if (!all) return Buffers::kUnknown;
  call.ring = true;  // who sleeps waits for the last one to enter, which does not sleep
  return Buffers::kMapped;
}

MappedBuffers buffers_of(const DirectCall& call, int rank) {
  const Places places = places_of(call, rank);
  return {call.memory->address(rank, places.input), call.memory->address(rank, places.output)};
}

void withdraw_buffers(std::span<DirectBlock* const> blocks, int rank, const DirectMemory& memory) {
  blocks[static_cast<size_t>(rank)]->withdrawn.raised.store(true, std::memory_order_seq_cst);
  const Deadline deadline = Deadline::after(kLongestWait);
  for (const DirectBlock* block : blocks)
    while (block->busy.raised.load(std::memory_order_seq_cst) && (memory.one_process() || !deadline.passed()))
      sched_yield();
}

}  // namespace unisono
