// SPDX-License-Identifier: Apache-2.0
// DirectLane: the calls of a communicator that run through direct forms, one after another.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "direct/block.h"
#include "direct/memory.h"
#include "execute/call.h"
#include "transport/transport.h"

namespace unisono {

// One thread at a time.
class DirectLane {
 public:
  // `transport` maps the blocks of all ranks, or is null: then there is no lane.
  DirectLane(Transport* transport, int rank);

  bool exists() const { return !blocks_.empty(); }
  Transport* transport() const { return exists() ? transport_ : nullptr; }
  std::span<DirectBlock* const> blocks() const { return blocks_; }
  // The other ranks, in the order in which calls wait for them: first those that share my CPU.
  std::span<const int> peers() const { return peers_; }
  // To be changed by all ranks between the same two calls.
  DirectMemory& memory() { return memory_; }
  const DirectMemory& memory() const { return memory_; }

  // Gives the call its turn, and runs it as far as it goes.
  void start(Call& call, uint32_t sequence, const void* input, void* output);
  bool waits_for(const Call& call) const { return !queue_.empty() && queue_.front() == &call; }
  bool idle() const { return queue_.empty(); }
  // Moves the first call on, and after it those that follow; whether one of them got on, or failed. A failed
  // call stays first.
  bool advance();
  // Before a wait: tells the others my CPU, and finds out who shares it.
  void find_neighbours();
  // Whether the first call waits for one that shares my CPU, and can come only when I let it.
  bool awaits_neighbour() const { return neighbours_ > 0 && !idle() && first()->awaited() < neighbours_; }
  bool has_neighbours() const { return neighbours_ > 0; }
  const Call* first() const { return queue_.empty() ? nullptr : queue_.front(); }
  // Ends all calls. After it no peer touches their buffers.
  void abort();

 private:
  bool run(Call& call);

  Transport* const transport_;
  const int rank_;
  std::vector<DirectBlock*> blocks_;  // by rank
  std::vector<int> peers_;
  size_t neighbours_ = 0;  // so many of them share my CPU
  DirectMemory memory_;
  uint32_t next_sequence_ = 1;
  uint64_t next_turn_ = 0;
  std::deque<Call*> queue_;
};

}  // namespace unisono
