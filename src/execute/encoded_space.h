// SPDX-License-Identifier: Apache-2.0
// EncodedSpace: a call's memory in its codec's wire format, and the steps that read and write it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codecs/codec.h"
#include "execute/plan.h"

namespace unisono {

// What error feedback keeps for a vector of float32, element by element; null: nothing is kept.
struct Residuals {
  float* worker = nullptr;
  float* owner = nullptr;
};

// Allocates when made, never later. One thread at a time.
class EncodedSpace {
 public:
  // `plan` outlives it. Without a codec it is empty, and only `bytes` may be asked.
  explicit EncodedSpace(const Plan& plan);

  // `context` runs `slice` from now on.
  void start_slice(uint32_t context, size_t slice);

  // Of a range of chunks: its bytes in the wire format, and where they are in a slot.
  size_t bytes(uint32_t context, ChunkRange chunks) const;
  std::byte* address(uint32_t context, Place place, ChunkRange chunks);

  // Between slots and the user's vector, of which `values` and the residuals are the first element.
  void encode(uint32_t context, const Step& step, const std::byte* values,
              const Residuals& residuals);
  void decode(uint32_t context, const Step& step, std::byte* values);

  // An operand of a fold: numbers, of the user's vector from element `first` on, or an encoded
  // message.
  struct Operand {
    const void* data;
    bool encoded;
    size_t first = 0;
  };
  void fold(uint32_t context, const Step& step, std::byte* result,
            std::span<const Operand> operands);

 private:
  ElementRange elements(uint32_t context, uint32_t chunk) const {
    return plan_.elements({chunk, 1}, slice_of_[context]);
  }
  size_t offset(uint32_t context, uint32_t chunk) const {
    return offsets_[context * (size_t{plan_.schedule.chunks} + 1) + chunk];
  }

  const Plan& plan_;
  size_t slot_bytes_ = 0;
  std::vector<size_t> slice_of_;        // per context
  std::vector<size_t> offsets_;         // contexts × (chunks + 1): where a chunk begins in a slot
  std::vector<std::byte> slots_;        // contexts × slots
  std::vector<CodecOperand> operands_;  // of one fold of one chunk
};

}  // namespace unisono
