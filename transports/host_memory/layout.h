// SPDX-License-Identifier: Apache-2.0
// What lies in a rank's shared region, who writes it, and in which order.
//
// A region belongs to one rank: a header, then one pair block for each peer. Every word but the
// doorbell has one writer, the owner of the region; peers pull. A pair block holds the owner's half
// of both directions:
//
//     rank 0's block for 1                         rank 1's block for 0
//     line   published ──────────────────────────► polled by 1
//            freed (how far 0 is with 1's slots) ─► lets 1 use its slots and data again
//     slots  [key bytes where] [..] [..]           slots …
//     data   payload, in order, wraps              data …
//
// Memory order. A slot and its payload are written before `published` (release) and read after it
// (acquire); they are used again only after `freed` has passed them (release/acquire). Words that a
// sleeper waits for are stored, and the doorbell is then read, both sequentially consistent; the
// sleeper stores the doorbell and then reads those words in the same way: one of the two sees the
// other, so no wake-up is lost. The words of direct forms are released and acquired, with a fence on both
// sides in place of that: wake_peers() and sleep().
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "transport/transport.h"

namespace unisono::host_memory {

inline constexpr size_t kLineBytes = 64;

enum PairFlag : uint32_t {
  kLeft = 1,        // the owner has aborted or closed; its messages up to `published` stay readable
  kMismatched = 2,  // the owner found a message that it did not expect; see MismatchNote
};

// All that an idle peer reads in progress(): one line.
struct alignas(kLineBytes) PairLine {
  std::atomic<uint64_t> published;  // messages from the owner to the peer
  std::atomic<uint64_t> freed;      // messages from the peer that the owner is done with, in order
  std::atomic<uint32_t> starved;  // the owner has sends that wait for `freed`
  std::atomic<uint32_t> flags;    // PairFlag
};

// Written once, before kMismatched.
struct alignas(kLineBytes) MismatchNote {
  Key key;  // as the owner expected it
  uint32_t sent_signature;
  uint64_t sent_bytes, expected_bytes;
};

// One message, or one fragment of a message; those of one message are neighbours.
struct alignas(kLineBytes) Slot {
  static constexpr size_t kInlineBytes = 16;

  Key key;
  uint64_t total;  // bytes of the message
  uint64_t begin;  // first byte of this fragment
  uint64_t where;  // of the payload, from the start of the pair block
  uint64_t bytes;  // of this fragment
  std::byte small[kInlineBytes];
};
static_assert(sizeof(PairLine) == kLineBytes && sizeof(Slot) == kLineBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);

// The sizes of a region. Its owner decides them; peers read them from its header.
struct Geometry {
  uint32_t pairs = 0;       // peers of the owner
  uint32_t slots = 0;       // of a pair; a power of two
  uint64_t data_bytes = 0;  // of a pair; a multiple of a line
  uint64_t mapped_bytes = 0;  // of the block for direct forms, behind the pair blocks

  // About `staging_bytes` for the pairs, and never less than a pair needs to work.
  static Geometry of(size_t pairs, uint64_t staging_bytes, uint64_t mapped_bytes);

  uint64_t block_bytes() const { return 2 * kLineBytes + slots * sizeof(Slot) + data_bytes; }
  uint64_t mapped_offset() const;  // of a page
  uint64_t region_bytes() const { return mapped_offset() + mapped_bytes; }
};

struct RegionHeader {
  Geometry geometry;
  // 1 while the owner sleeps. Any rank sets it to 0 and then wakes the owner (a shared futex).
  alignas(kLineBytes) std::atomic<uint32_t> asleep;
};

inline uint64_t Geometry::mapped_offset() const {
  // A long block of callers' buffers begins with a huge page.
  constexpr uint64_t kPage = 4096, kHugePage = uint64_t{2} << 20;
  const uint64_t page = pairs == 0 && mapped_bytes >= kHugePage ? kHugePage : kPage;
  return (sizeof(RegionHeader) + pairs * block_bytes() + page - 1) / page * page;
}

inline Geometry Geometry::of(size_t pairs, uint64_t staging_bytes, uint64_t mapped_bytes) {
  constexpr uint64_t kMinSlots = 8, kMaxSlots = 256, kMinData = 512, kMaxData = uint64_t{1} << 31;
  const uint64_t share = staging_bytes / (pairs == 0 ? 1 : pairs);
  Geometry geometry;
  geometry.mapped_bytes = mapped_bytes;
  geometry.pairs = static_cast<uint32_t>(pairs);
  geometry.slots = static_cast<uint32_t>(
      std::clamp(std::bit_floor(share / (16 * sizeof(Slot))), kMinSlots, kMaxSlots));
  const uint64_t overhead = geometry.block_bytes();
  const uint64_t data = share > overhead ? share - overhead : 0;
  geometry.data_bytes = std::clamp(data, kMinData, kMaxData) / kLineBytes * kLineBytes;
  return geometry;
}

// One pair block, in whatever mapping.
struct Pair {
  std::byte* block;
  uint32_t slot_count;
  uint64_t data_bytes;

  Pair(std::byte* region, const Geometry& geometry, uint32_t index)
      : block(region + sizeof(RegionHeader) + index * geometry.block_bytes()),
        slot_count(geometry.slots),
        data_bytes(geometry.data_bytes) {}

  PairLine& line() const { return *reinterpret_cast<PairLine*>(block); }
  MismatchNote& note() const { return *reinterpret_cast<MismatchNote*>(block + kLineBytes); }
  Slot& slot(uint64_t index) const {
    return reinterpret_cast<Slot*>(block + 2 * kLineBytes)[index & (slot_count - 1)];
  }
  uint64_t data_offset() const { return 2 * kLineBytes + slot_count * sizeof(Slot); }
};

}  // namespace unisono::host_memory
