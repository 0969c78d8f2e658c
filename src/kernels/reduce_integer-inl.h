// SPDX-License-Identifier: Apache-2.0
// The operations of integer types, and their table for one type.
#if defined(UNISONO_KERNELS_REDUCE_INTEGER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNISONO_KERNELS_REDUCE_INTEGER_INL_H_
#undef UNISONO_KERNELS_REDUCE_INTEGER_INL_H_
#else
#define UNISONO_KERNELS_REDUCE_INTEGER_INL_H_
#endif

#include <limits>
#include <type_traits>

#include "base/types.h"
#include "kernels/reduce-inl.h"
#include "kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

struct IntegerMinimum : Undivided {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Min(a, b);
  }
};
struct IntegerMaximum : Undivided {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Max(a, b);
  }
};

// Exact quotients through a float type that holds every dividend: a correctly rounded quotient of
// integers below 2^p lies on the same side of every integer as the exact one, in p bits of precision.
// Dividends are below 2^8 in 32-bit lanes and below 2^32 in 64-bit lanes.
template <class D, class V>
HWY_INLINE V quotient(D d, V dividend, uint32_t divisor) {
  const hn::RebindToFloat<D> df;
  const auto float_divisor = hn::Set(df, static_cast<hn::TFromD<decltype(df)>>(divisor));
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const hn::RebindToSigned<D> di;
    const auto float_dividend = hn::ConvertTo(df, hn::BitCast(di, dividend));
    return hn::BitCast(d, hn::ConvertTo(di, hn::Div(float_dividend, float_divisor)));
  } else {
    const auto base = hn::Set(df, 4503599627370496.0);  // 2^52: its low bits count ones
    const auto bits = hn::BitCast(d, base);
    const auto float_dividend = hn::Sub(hn::BitCast(df, hn::Or(dividend, bits)), base);
    const auto whole = hn::Floor(hn::Div(float_dividend, float_divisor));
    return hn::Xor(hn::BitCast(d, hn::Add(whole, base)), bits);
  }
}

// T is summed in wider unsigned registers; the sum wraps to T before it is divided, towards zero.
template <class T>
struct NarrowAverage : Sum {
  template <class D, class V>
  static HWY_INLINE V finish(D d, V sum, uint32_t divisor) {
    using U = std::make_unsigned_t<T>;
    const auto wrap = hn::Set(d, std::numeric_limits<U>::max());
    if constexpr (std::is_signed_v<T>) {
      const auto sign_bit = hn::And(hn::ShiftRight<8 * sizeof(T) - 1>(sum), hn::Set(d, 1));
      const auto minus = hn::Sub(hn::Zero(d), sign_bit);
      const auto size = hn::And(hn::Sub(hn::Xor(sum, minus), minus), wrap);
      return hn::Sub(hn::Xor(quotient(d, size, divisor), minus), minus);
    } else {
      return quotient(d, hn::And(sum, wrap), divisor);
    }
  }
};

// No instruction divides 64-bit integers in vectors.
template <class T>
struct WideAverage : Sum {
  template <class D, class V>
  static HWY_INLINE V finish(D d, V sum, uint32_t divisor) {
    alignas(64) hn::TFromD<D> lanes[hn::MaxLanes(D())];
    hn::Store(sum, d, lanes);
    for (size_t i = 0; i < hn::Lanes(d); ++i)
      lanes[i] = static_cast<hn::TFromD<D>>(static_cast<T>(lanes[i]) / static_cast<T>(divisor));
    return hn::Load(d, lanes);
  }
};

// Sums and products wrap, so signed ones are those of the unsigned type. There is no product of
// bytes: ProductFormat may be wider.
template <class T, class ProductFormat, class AverageFormat, class Average>
ReduceKernels integer_kernel(ReduceOp op) {
  using Unsigned = Plain<std::make_unsigned_t<T>>;
  switch (op) {
    case ReduceOp::kSum:
      return kernels<Unsigned, Sum>();
    case ReduceOp::kProd:
      return kernels<ProductFormat, Product>();
    case ReduceOp::kMin:
      return kernels<Plain<T>, IntegerMinimum>();
    case ReduceOp::kMax:
      return kernels<Plain<T>, IntegerMaximum>();
    case ReduceOp::kAvg:
      break;
  }
  return average_kernels<Unsigned, AverageFormat, Average>();
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
