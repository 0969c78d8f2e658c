// SPDX-License-Identifier: Apache-2.0
// Reduction kernels of f16 and bf16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_halves.cc"
#include "hwy/foreach_target.h"
#include "kernels/reduce_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

ReduceKernels choose_half(DataType type, ReduceOp op) {
  return type == DataType::kFloat16 ? float_kernel<Float16>(op) : float_kernel<Bfloat16>(op);
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/reduce_groups.h"

namespace unisono {

HWY_EXPORT(choose_half);

ReduceKernels reduce_halves(DataType type, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(choose_half)(type, op);
}

}  // namespace unisono
#endif
