// SPDX-License-Identifier: Apache-2.0
// Direct forms: hand-written all-reduces over memory that all ranks of one host map. A direct form belongs to an
// algorithm, whose schedule is its proof: both give the same bits.
//
// Every rank owns a block (block.h) that it alone writes and all read. Calls through direct forms run one after
// another on a communicator, in the order of their start, and obey one rule: *a rank ends a call only after it
// has seen every peer enter it.* So when a rank enters call n+1, every peer has ended call n−1, and what call
// n−1 left in the rank's block may be overwritten: two slots by parity suffice, without a barrier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/types.h"
#include "kernels/reduce.h"

namespace unisono {

struct DirectBlock;
class DirectMemory;

// What a form may know when it is asked whether it serves; the same on all ranks.
struct DirectShape {
  size_t bytes;  // of the user's vector
  int ranks;
};

// One rank's part in one call. Filled in by the executor; the last group is the form's own.
struct DirectCall {
  // Of the plan.
  int rank = 0;
  size_t count = 0;
  size_t element_size = 0;
  ReduceKernel finish = nullptr;
  SpreadKernel spread = nullptr;  // the same into all outputs
  uint32_t divisor = 1;
  std::span<DirectBlock* const> blocks;  // by rank
  std::span<const int> peers;            // the other ranks, in the order in which they are waited for

  // Of the call.
  uint32_t sequence = 0;   // number of this direct call, from 1; wraps
  uint32_t signature = 0;  // hash of what ranks must agree on
  uint64_t first_turn = 0;  // turns (block.h) before this call
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  bool streams = false;    // outputs go past the cache; mine is not my input
  const DirectMemory* memory = nullptr;  // where mapped buffers lie

  // Progress. Zero when the call begins.
  uint32_t phase = 0;
  size_t turn = 0;
  size_t peer = 0;  // of `peers`, the first that is waited for
  bool ring = false;  // set by the form, looked at when advance() returns: peers may sleep for what I have published
  int mismatched = -1;  // set by the form: the rank whose signature differs

  size_t bytes() const { return count * element_size; }
  int size() const { return static_cast<int>(blocks.size()); }
  uint64_t entry_word() const { return uint64_t{sequence} << 32 | signature; }
};

struct DirectForm {
  std::string_view name;
  std::string_view summary;  // one line
  bool (*serves)(const DirectShape& shape);
  // Turns that a call of that shape takes; 0 for forms without turns.
  size_t (*turns)(const DirectShape& shape);
  // Goes on until the call has ended (true) or must wait for a peer (false; call again later). Never blocks.
  bool (*advance)(DirectCall& call);
  // Serves where all ranks' buffers lie in memory that all ranks map; which ranks find out call by call.
  bool needs_mapped_buffers = false;
};

}  // namespace unisono
