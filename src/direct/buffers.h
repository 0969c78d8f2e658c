// SPDX-License-Identifier: Apache-2.0
// How ranks find out, call by call, whether all of them map the buffers of all, and how they then
// touch what belongs to others.
//
// What one rank knows of its buffers changes no message: each publishes where its buffers lie with
// its entry into the call, and the form is chosen from all entries, alike on all ranks. A rank with
// a private buffer knows the outcome at once and waits for nobody.
//
// A rank that fails or leaves withdraws its buffers: from then on no peer begins to touch them, and
// it waits for those who are at it. `busy` and `withdrawn` are stored and then the other's is
// loaded, sequentially consistently, so one of the two sees the other.
#pragma once

#include <array>

#include "direct/block.h"
#include "direct/memory.h"

namespace unisono {

enum class Buffers { kUnknown, kPrivate, kMapped };

// Publishes my entry (at phase 0), and tells what the buffers of this call are as soon as that is
// certain. Sets `ring` and `mismatched`. Call again while it says kUnknown.
Buffers find_buffers(DirectCall& call);

// Precondition: find_buffers() said kMapped, and the call is still running.
struct MappedBuffers {
  const std::byte* input;
  std::byte* output;
};
MappedBuffers buffers_of(const DirectCall& call, int rank);

// While it lives, I may touch my peers' buffers, unless one of them has withdrawn: look again from
// time to time.
class TouchingPeers {
 public:
  explicit TouchingPeers(const DirectCall& call) : call_(call) {
    mine().busy.raised.store(true, std::memory_order_seq_cst);
  }
  ~TouchingPeers() { mine().busy.raised.store(false, std::memory_order_release); }
  TouchingPeers(const TouchingPeers&) = delete;

  bool allowed() const {
    for (const DirectBlock* block : call_.blocks)
      if (block->withdrawn.raised.load(std::memory_order_seq_cst)) return false;
    return true;
  }

 private:
  DirectBlock& mine() const { return *call_.blocks[static_cast<size_t>(call_.rank)]; }
  const DirectCall& call_;
};

// Nobody begins to touch buffers of mine any more; waits for those who do. Between threads nobody touches them
// after it returns. Between processes it waits at most a second: a peer that was stopped in a piece of work may finish
// it later, in memory that it maps itself.
void withdraw_buffers(std::span<DirectBlock* const> blocks, int rank, const DirectMemory& memory);

}  // namespace unisono
