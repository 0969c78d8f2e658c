// SPDX-License-Identifier: Apache-2.0
// DirectMemory: the memory of callers that all ranks map, and where in it a buffer lies.
//
// Ranks map one another's allocations at different addresses, so they tell each other *places*:
// which allocation, and how far into its owner's part. Between threads of one process every buffer
// is mapped, and its place is its address.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace unisono {

// The same allocations, by the same numbers, on all ranks. One thread at a time.
class DirectMemory {
 public:
  using Place = uint64_t;
  static constexpr Place kPrivate = 0;  // what only its owner maps
  static constexpr uint32_t kMostAllocations = (1u << 16) - 1;
  static constexpr int kOffsetBits = 48;
  static constexpr size_t kMostBytes = size_t{1} << kOffsetBits;  // of an allocation

  // `one_process`: all ranks are threads of this process.
  explicit DirectMemory(bool one_process) : one_process_(one_process) {}

  bool one_process() const { return one_process_; }
  // Whether no buffer of any rank can be mapped; all ranks say the same.
  bool empty() const { return !one_process_ && count_ == 0; }

  // `blocks`: every rank's part, by rank, as mapped here. Precondition: the number is free.
  void add(uint32_t number, std::span<std::byte* const> blocks, size_t bytes) {
    if (number >= parts_.size()) parts_.resize(number + 1);
    assert(parts_[number].blocks.empty() && number < kMostAllocations && bytes <= kMostBytes);
    parts_[number] = {{blocks.begin(), blocks.end()}, bytes};
    ++count_;
  }
  void remove(uint32_t number) {
    parts_[number] = {};
    --count_;
  }

  // Of a buffer of `rank`, which is the caller.
  Place place_of(int rank, const std::byte* data, size_t bytes) const {
    if (one_process_) return reinterpret_cast<uintptr_t>(data);
    for (size_t number = 0; number < parts_.size(); ++number) {
      const Part& part = parts_[number];
      if (part.blocks.empty()) continue;
      // Wraps for a buffer below the block.
      const size_t offset =
          static_cast<size_t>(reinterpret_cast<uintptr_t>(data) -
                              reinterpret_cast<uintptr_t>(part.blocks[static_cast<size_t>(rank)]));
      if (offset < part.bytes && bytes <= part.bytes - offset)
        return (number + 1) << kOffsetBits | offset;
    }
    return kPrivate;
  }
  // Where I see what lies there. Precondition: not private.
  std::byte* address(int rank, Place place) const {
    if (one_process_) return reinterpret_cast<std::byte*>(place);
    const Part& part = parts_[(place >> kOffsetBits) - 1];
    return part.blocks[static_cast<size_t>(rank)] + (place & (kMostBytes - 1));
  }

 private:
  struct Part {
    std::vector<std::byte*> blocks;  // by rank; empty: the number is free
    size_t bytes = 0;
  };

  const bool one_process_;
  size_t count_ = 0;
  std::vector<Part> parts_;  // by number
};

}  // namespace unisono
