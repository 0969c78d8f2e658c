// SPDX-License-Identifier: Apache-2.0
// Conversions between vectors of float32 and of the 16-bit floats, dispatched at run time on the
// CPU's features.
#pragma once

#include <cstddef>

#include "base/types.h"

namespace unisono {

// out[i] = in[i] converted, for `count` elements. The vectors must not overlap. Any alignment.
// - To float32: exact. From float32: rounded to nearest even, subnormal numbers kept, overflow to
//   infinity. NaN stays NaN of the same sign, its upper payload kept and its quiet bit set.
// - The same bits on every instruction set. No access outside [0, count).
using ConvertKernel = void (*)(void* out, const void* in, size_t count);

// `half` is kFloat16 or kBfloat16. Never null. Thread-safe; resolve once per plan, not per call.
ConvertKernel to_float32_kernel(DataType half);
ConvertKernel from_float32_kernel(DataType half);

}  // namespace unisono
