// SPDX-License-Identifier: Apache-2.0
// The operations of floating-point types, and their table for one format.
#if defined(UNISONO_KERNELS_REDUCE_FLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNISONO_KERNELS_REDUCE_FLOAT_INL_H_
#undef UNISONO_KERNELS_REDUCE_FLOAT_INL_H_
#else
#define UNISONO_KERNELS_REDUCE_FLOAT_INL_H_
#endif

#include "base/types.h"
#include "kernels/reduce-inl.h"
#include "kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

struct FloatAverage : Sum {
  template <class D, class V>
  static HWY_INLINE V finish(D d, V a, uint32_t divisor) {
    return hn::Div(a, hn::Set(d, static_cast<hn::TFromD<D>>(divisor)));
  }
};

// Where neither is less, the two are equal, or differ in the sign of zero, or one is NaN: the union
// of their bits is then the common value, −0, or a NaN.
struct FloatMinimum : Undivided {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::IfThenElse(hn::Lt(a, b), a, hn::IfThenElse(hn::Lt(b, a), b, hn::Or(a, b)));
  }
};

// max(a, b) = −min(−a, −b), for zeros and NaN too.
struct FloatMaximum : Undivided {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V a, V b) {
    return hn::Neg(FloatMinimum::apply(d, hn::Neg(a), hn::Neg(b)));
  }
};

template <class Format>
ReduceKernels float_kernel(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return kernels<Format, Sum>();
    case ReduceOp::kProd:
      return kernels<Format, Product>();
    case ReduceOp::kMin:
      return kernels<Format, FloatMinimum>();
    case ReduceOp::kMax:
      return kernels<Format, FloatMaximum>();
    case ReduceOp::kAvg:
      break;
  }
  return average_kernels<Format, Format, FloatAverage>();
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
