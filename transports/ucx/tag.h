// SPDX-License-Identifier: Apache-2.0
// How a key becomes the 64-bit tag that UCX matches.
//
//   [ signature | message | slice | sequence | sender ]   least significant bits on the right
//
// Sequence and slice wrap: two messages of an ordered pair that are posted at the same time must be
// less than 256 calls and 256 slices apart. (UCX keeps the order of equal tags of one sender, so a
// sender that runs ahead does no harm.) The signature takes what the others leave, 32 bits in
// worlds of up to 128 ranks and 22 in the largest, and is outside of the mask.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "transport/transport.h"

namespace unisono {

class TagLayout {
 public:
  static constexpr int kMaxSize = 4096;

  // Precondition: 1 <= size <= kMaxSize.
  explicit TagLayout(int size)
      : sender_bits_(std::bit_width(static_cast<unsigned>(size - 1))),
        message_bits_(std::max(16 - sender_bits_, sender_bits_ + 2)) {
  }  // a ring's pair has 2(p - 1)

  uint32_t max_message() const { return static_cast<uint32_t>(ones(message_bits_)); }
  uint64_t match_mask() const { return ones(match_bits()); }
  uint64_t signature_mask() const { return ones(std::min(32, 64 - match_bits())); }

  // Precondition: key.message <= max_message().
  uint64_t tag(int sender, const Key& key) const {
    uint64_t tag = key.signature & signature_mask();
    tag = tag << message_bits_ | key.message;
    tag = tag << kSliceBits | (key.slice & ones(kSliceBits));
    tag = tag << kSequenceBits | (key.sequence & ones(kSequenceBits));
    return tag << sender_bits_ | static_cast<uint64_t>(sender);
  }
  uint32_t signature_of(uint64_t tag) const {
    return static_cast<uint32_t>(tag >> match_bits() & signature_mask());
  }

 private:
  static constexpr int kSliceBits = 8;
  static constexpr int kSequenceBits = 8;

  static constexpr uint64_t ones(int bits) { return (uint64_t{1} << bits) - 1; }
  int match_bits() const { return sender_bits_ + kSequenceBits + kSliceBits + message_bits_; }

  int sender_bits_;
  int message_bits_;
};

}  // namespace unisono
