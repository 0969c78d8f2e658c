// SPDX-License-Identifier: Apache-2.0
// Reduction kernels of f32 and f64.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_floats.cc"
#include "hwy/foreach_target.h"
#include "kernels/reduce_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

ReduceKernels choose_float(DataType type, ReduceOp op) {
  return type == DataType::kFloat32 ? float_kernel<Plain<float>>(op)
                                    : float_kernel<Plain<double>>(op);
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/reduce_groups.h"

namespace unisono {

HWY_EXPORT(choose_float);

ReduceKernels reduce_floats(DataType type, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(choose_float)(type, op);
}

}  // namespace unisono
#endif
