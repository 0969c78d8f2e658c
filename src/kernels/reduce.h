// SPDX-License-Identifier: Apache-2.0
// Reduction kernels: the fold of several vectors into one, dispatched at run time on the CPU's features.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace unisono {

// out[i] = (inputs[0][i] ∘ inputs[1][i] ∘ … ∘ inputs[n−1][i]) / divisor, folded from the left.
// - `out` may be the same memory as any input, and otherwise must not overlap one. Any alignment.
// - 1 ≤ n; n = 1 copies (and divides). divisor ≥ 1; it is 1 but for the step that finishes an avg.
// - Integers wrap; avg of integers truncates towards zero. f16 and bf16 accumulate in float32 and are
//   rounded once, to nearest even. min and max of floats: NaN if any operand is NaN; −0 < +0.
// - The same bits on every instruction set (NaN payloads excepted). No access outside [0, count).
using ReduceKernel = void (*)(void* out, const void* const* inputs, size_t n, size_t count,
                              uint32_t divisor);

// The same fold into n outputs in one pass: one for each input, as in memory that all ranks map. 2 ≤ n.
// - Each of `outs` may be the same memory as any input, and otherwise must overlap nothing.
// - stream: the outputs are large beside the caches, and nobody reads them soon. Where all are aligned to 64
//   bytes, stores then go past the caches; on return they are in order before all that follows.
using SpreadKernel = void (*)(void* const* outs, const void* const* inputs, size_t n, size_t count,
                              uint32_t divisor, bool stream);

struct ReduceKernels {
  ReduceKernel reduce;
  SpreadKernel spread;
};

// Never null. Thread-safe; resolve once per plan, not per call.
ReduceKernels reduce_kernels(DataType type, ReduceOp op);
inline ReduceKernel reduce_kernel(DataType type, ReduceOp op) {
  return reduce_kernels(type, op).reduce;
}

}  // namespace unisono
