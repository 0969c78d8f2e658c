// SPDX-License-Identifier: Apache-2.0
// The groups of types whose kernels are compiled together. Inside src/kernels only.
#pragma once

#include "kernels/reduce.h"

namespace unisono {

// Each: never null; `type` is one of the group's.
ReduceKernels reduce_bytes(DataType type, ReduceOp op);   // i8 u8
ReduceKernels reduce_words(DataType type, ReduceOp op);   // i32 u32 i64 u64
ReduceKernels reduce_halves(DataType type, ReduceOp op);  // f16 bf16
ReduceKernels reduce_floats(DataType type, ReduceOp op);  // f32 f64

}  // namespace unisono
