// SPDX-License-Identifier: Apache-2.0
// DirectBlock: what a rank offers its peers for direct forms, and the two waits that all forms are made of.
//
// Memory order. A word is stored (release) after the data that it announces, and loaded (acquire) before that data
// is read. Nothing waits for the store to reach the peers: the lines that a rank writes and those that it reads
// travel at the same time. Whether a peer sleeps is asked later, behind a fence: see DirectCall::ring.
// Payload in a word's own line costs its reader one transfer of a line in all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "direct/direct.h"

namespace unisono {

inline constexpr size_t kDirectLine = 64;

struct alignas(kDirectLine) DirectBlock {
  struct alignas(kDirectLine) Line {
    static constexpr size_t kPayload = kDirectLine - sizeof(uint64_t);
    std::atomic<uint64_t> word;  // DirectCall::entry_word of the call that wrote it
    std::byte payload[kPayload];
  };
  struct alignas(kDirectLine) Counter {
    std::atomic<uint64_t> value;
  };
  struct alignas(kDirectLine) Flag {
    std::atomic<bool> raised;
  };
  static constexpr size_t kLines = 4;
  static constexpr size_t kSlotBytes = size_t{64} << 10;
  static constexpr size_t kTurns = 4;                  // turns of a pipelined form that its staging holds
  static constexpr size_t kTurnBytes = size_t{256} << 10;

  // By parity of the call. Line 0's word is the entry of every form; the next two are of calls that may have
  // mapped buffers (buffers.h).
  static constexpr size_t kBuffersLine = 1, kFinishedLine = 2;
  Line lines[2][kLines];
  alignas(kDirectLine) std::byte slots[2][kSlotBytes];

  // A pipelined form takes a long vector in turns; turn t of a communicator's life uses staging t mod kTurns.
  Counter copied;   // turns whose input lies in `given`
  Counter reduced;  // turns whose result lies in `result`
  alignas(kDirectLine) std::byte given[kTurns][kTurnBytes];
  alignas(kDirectLine) std::byte result[kTurns][kTurnBytes];

  // 1 + the CPU on which the owner last waited; 0: it has not waited.
  Counter cpu;

  // Of mapped buffers.
  Flag busy;       // while the owner reads and writes buffers of its peers
  Flag withdrawn;  // nobody may begin to touch the owner's
};

// Stores a word, behind all that it announces.
inline void publish(std::atomic<uint64_t>& word, uint64_t value) {
  word.store(value, std::memory_order_release);
}

// Whether `peer` has published this call in that line; line 0 is its entry. A peer that has entered another one
// instead is a mismatch.
inline bool has_published(DirectCall& call, int peer, size_t line = 0) {
  const uint64_t word =
      call.blocks[static_cast<size_t>(peer)]->lines[call.sequence & 1][line].word.load(std::memory_order_acquire);
  if (word == call.entry_word()) return true;
  if (static_cast<uint32_t>(word >> 32) == call.sequence) call.mismatched = peer;
  return false;
}

// Whether every peer has; looks on where it stopped before, at `call.peer`. Start a wait with peer = 0.
inline bool all_published(DirectCall& call, size_t line = 0) {
  for (; call.peer < call.peers.size(); ++call.peer)
    if (!has_published(call, call.peers[call.peer], line)) return false;
  return true;
}

// Whether a counter of every peer has reached `value`, likewise.
inline bool all_reached(DirectCall& call, DirectBlock::Counter DirectBlock::* counter, uint64_t value) {
  for (; call.peer < call.peers.size(); ++call.peer) {
    const DirectBlock& block = *call.blocks[static_cast<size_t>(call.peers[call.peer])];
    if ((block.*counter).value.load(std::memory_order_acquire) < value) return false;
  }
  return true;
}

}  // namespace unisono
