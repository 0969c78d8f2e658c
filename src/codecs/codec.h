// SPDX-License-Identifier: Apache-2.0
// Codec: a wire format for payloads of float32, as a row of a table; and the fold of encoded
// operands.
//
// No codec at all ("none") is the absence of one: a null pointer. To add a codec: one file that
// defines its row, and the row's line in registry.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "base/types.h"

namespace unisono {

// Stateless; every function is pure but for its outputs, thread-safe, gives the same bytes on every
// instruction set, and touches nothing outside the vectors named. Vectors may have any alignment
// and do not overlap.
struct Codec {
  std::string_view name;
  std::string_view summary;         // one line
  std::string_view special_values;  // what NaN, infinities and the smallest numbers become
  std::span<const ReduceOp> ops;    // that it serves
  // |decoded − value| ≤ relative_error · (largest |value| of the block), for values in the format's
  // range: what is known before the values are.
  double relative_error;
  // How often a contribution may be encoded on its way when the runtime picks the algorithm; 0: any
  // number.
  int advised_quantisations;

  // Bytes of an encoded vector; monotone, wire_size(0) = 0.
  size_t (*wire_size)(size_t count);

  // Encodes `count` float32. With a residual (`count` float32; null: none) it encodes e = value +
  // residual and leaves residual = e − decoded, but where the decoded value is not finite: there
  // the residual stays as it was. One pass over memory.
  void (*encode)(const void* values, void* residual, size_t count, void* wire);

  // Elements [first, first + n) of an encoded vector of `count`, to n float32. `first` is a
  // multiple of kCodecBlock.
  void (*decode)(const void* wire, size_t count, size_t first, size_t n, void* values);

  // The largest |decoded − value| that these values, all finite, may show: computed from them in
  // float64 by the codec's definition, with room for its float32 arithmetic. Infinite where one
  // overflows.
  double (*error_bound)(const float* values, size_t count);
};

// Every codec's blocks divide this many elements.
inline constexpr size_t kCodecBlock = 512;

std::span<const Codec* const> codec_table();

// "none" gives a null pointer. Errors: kInvalidArgument for an unknown name, with the nearest known
// one.
Result<const Codec*> find_codec(std::string_view name);

// "none" for the null codec.
inline std::string_view name_of(const Codec* codec) { return codec == nullptr ? "none" : codec->name; }

// Ok, or kUnsupported with what the codec serves instead. A null codec serves all.
Status supports(const Codec* codec, DataType type, ReduceOp op);

// One operand of a fold: `count` elements of float32, or a vector of `count` in a codec's wire
// format.
struct CodecOperand {
  const void* data;
  bool encoded;
};

// out[i] = (operands[0][i] ∘ … ∘ operands[n−1][i]) / divisor: as the ReduceKernel of float32 gives
// it for the decoded operands, in this order. `out` may be the same memory as a plain operand. n
// ≥ 1.
void fold_encoded(const Codec& codec, ReduceOp op, void* out,
                  std::span<const CodecOperand> operands, size_t count, uint32_t divisor);

}  // namespace unisono
