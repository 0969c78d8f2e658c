// SPDX-License-Identifier: Apache-2.0
// Reduction kernels of i8 and u8.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_bytes.cc"
#include "hwy/foreach_target.h"
#include "kernels/reduce_integer-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

template <class T>
ReduceKernels byte_kernel(ReduceOp op) {
  return integer_kernel<T, Widened<uint8_t, uint16_t>, Widened<uint8_t, uint32_t>,
                        NarrowAverage<T>>(op);
}

ReduceKernels choose_byte(DataType type, ReduceOp op) {
  return type == DataType::kInt8 ? byte_kernel<int8_t>(op) : byte_kernel<uint8_t>(op);
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/reduce_groups.h"

namespace unisono {

HWY_EXPORT(choose_byte);

ReduceKernels reduce_bytes(DataType type, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(choose_byte)(type, op);
}

}  // namespace unisono
#endif
