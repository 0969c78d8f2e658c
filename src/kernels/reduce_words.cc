// SPDX-License-Identifier: Apache-2.0
// Reduction kernels of i32, u32, i64 and u64.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_words.cc"
#include "hwy/foreach_target.h"
#include "kernels/reduce_integer-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

template <class T>
ReduceKernels word_kernel(ReduceOp op) {
  return integer_kernel<T, Plain<uint32_t>, Widened<uint32_t, uint64_t>, NarrowAverage<T>>(op);
}

template <class T>
ReduceKernels long_kernel(ReduceOp op) {
  return integer_kernel<T, Plain<uint64_t>, Plain<uint64_t>, WideAverage<T>>(op);
}

ReduceKernels choose_word(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::kInt32:
      return word_kernel<int32_t>(op);
    case DataType::kUint32:
      return word_kernel<uint32_t>(op);
    case DataType::kInt64:
      return long_kernel<int64_t>(op);
    default:
      return long_kernel<uint64_t>(op);
  }
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/reduce_groups.h"

namespace unisono {

HWY_EXPORT(choose_word);

ReduceKernels reduce_words(DataType type, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(choose_word)(type, op);
}

}  // namespace unisono
#endif
