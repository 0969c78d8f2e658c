// SPDX-License-Identifier: Apache-2.0
// The fold of encoded operands: block by block, decoded into the first-level cache, then reduced.
#include <algorithm>
#include <cassert>

#include "codecs/codec.h"
#include "kernels/reduce.h"

namespace unisono {
namespace {

// Operands of one pass: their blocks fill half of a first-level cache of 32 KiB.
constexpr size_t kMostOperands = 8;

}  // namespace

void fold_encoded(const Codec& codec, ReduceOp op, void* out,
                  std::span<const CodecOperand> operands, size_t count, uint32_t divisor) {
  assert(!operands.empty() && supports(&codec, DataType::kFloat32, op).ok());
  const ReduceKernel reduce = reduce_kernel(DataType::kFloat32, op);
  alignas(64) float decoded[kMostOperands][kCodecBlock];
  alignas(64) float folded[kCodecBlock];
  for (size_t first = 0; first < count; first += kCodecBlock) {
    const size_t n = std::min(kCodecBlock, count - first);
    const size_t offset = first * sizeof(float);
    const void* inputs[kMostOperands];
    size_t filled = 0;
    // `out` may be a later operand, so it is written last.
    for (size_t k = 0; k < operands.size(); ++k) {
      if (operands[k].encoded) {
        codec.decode(operands[k].data, count, first, n, decoded[filled]);
        inputs[filled] = decoded[filled];
        ++filled;
      } else {
        inputs[filled++] = static_cast<const std::byte*>(operands[k].data) + offset;
      }
      if (k + 1 == operands.size()) {
        reduce(static_cast<std::byte*>(out) + offset, inputs, filled, n, divisor);
      } else if (filled == kMostOperands) {
        reduce(folded, inputs, filled, n, 1);
        inputs[0] = folded;
        filled = 1;
      }
    }
  }
}

}  // namespace unisono
