// SPDX-License-Identifier: Apache-2.0
// The fold of several vectors into one, for any format and operation. Compiled once for each
// instruction set.
#if defined(UNISONO_KERNELS_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNISONO_KERNELS_REDUCE_INL_H_
#undef UNISONO_KERNELS_REDUCE_INL_H_
#else
#define UNISONO_KERNELS_REDUCE_INL_H_
#endif

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

// An operation: apply(d, a, b) folds one more operand into a; finish(d, a, divisor) ends the fold.
struct Undivided {
  template <class D, class V>
  static HWY_INLINE V finish(D, V a, uint32_t) {
    return a;
  }
};
struct Sum : Undivided {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Add(a, b);
  }
};
struct Product : Undivided {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Mul(a, b);
  }
};

// A loop over elements: kVectors registers at a time, all operands of each in turn.
template <class Format, class Op, size_t kVectors>
HWY_INLINE void fold_block(uint8_t* out, const void* const* inputs, size_t n, size_t offset,
                           uint32_t divisor) {
  const typename Format::D d;
  const size_t stride = hn::Lanes(d) * Format::kBytes;
  typename Format::V folded[kVectors];
  const uint8_t* first = static_cast<const uint8_t*>(inputs[0]) + offset;
  for (size_t v = 0; v < kVectors; ++v) folded[v] = Format::load(first + v * stride);
  for (size_t k = 1; k < n; ++k) {
    const uint8_t* next = static_cast<const uint8_t*>(inputs[k]) + offset;
    for (size_t v = 0; v < kVectors; ++v)
      folded[v] = Op::apply(d, folded[v], Format::load(next + v * stride));
  }
  for (size_t v = 0; v < kVectors; ++v)
    Format::store(Op::finish(d, folded[v], divisor), out + offset + v * stride);
}

template <class Format, class Op>
HWY_INLINE void fold_rest(uint8_t* out, const void* const* inputs, size_t n, size_t offset,
                          size_t count, uint32_t divisor) {
  const typename Format::D d;
  auto folded = load_some<Format>(static_cast<const uint8_t*>(inputs[0]) + offset, count);
  for (size_t k = 1; k < n; ++k) {
    const uint8_t* next = static_cast<const uint8_t*>(inputs[k]) + offset;
    folded = Op::apply(d, folded, load_some<Format>(next, count));
  }
  store_some<Format>(Op::finish(d, folded, divisor), out + offset, count);
}

template <class Format, class Op>
HWY_INLINE void fold_all(uint8_t* out, const void* const* inputs, size_t n, size_t count,
                         uint32_t divisor) {
  constexpr size_t kVectors = 4;
  const size_t lanes = hn::Lanes(typename Format::D());
  size_t i = 0;
  for (; i + kVectors * lanes <= count; i += kVectors * lanes)
    fold_block<Format, Op, kVectors>(out, inputs, n, i * Format::kBytes, divisor);
  for (; i + lanes <= count; i += lanes)
    fold_block<Format, Op, 1>(out, inputs, n, i * Format::kBytes, divisor);
  if (i < count) fold_rest<Format, Op>(out, inputs, n, i * Format::kBytes, count - i, divisor);
}

// A ReduceKernel. Two operands, the most frequent case, get loops of their own.
template <class Format, class Op>
void fold(void* out, const void* const* inputs, size_t n, size_t count, uint32_t divisor) {
  uint8_t* bytes = static_cast<uint8_t*>(out);
  if (n == 2) {
    fold_all<Format, Op>(bytes, inputs, 2, count, divisor);
  } else if (n == 1 && divisor == 1) {
    if (out != inputs[0] && count > 0) std::memcpy(out, inputs[0], count * Format::kBytes);
  } else {
    fold_all<Format, Op>(bytes, inputs, n, count, divisor);
  }
}

// A ReduceKernel for avg: without a division, it is the sum.
template <class SumFormat, class Format, class Average>
void fold_average(void* out, const void* const* inputs, size_t n, size_t count, uint32_t divisor) {
  if (divisor == 1) return fold<SumFormat, Sum>(out, inputs, n, count, 1);
  fold_all<Format, Average>(static_cast<uint8_t*>(out), inputs, n, count, divisor);
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
