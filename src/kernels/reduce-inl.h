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

#include "kernels/reduce.h"
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

// Where folds go. One vector:
struct ToOne {
  static constexpr size_t kVectors = 4;  // at a time
  uint8_t* out;
  template <class Format, size_t kCount>
  HWY_INLINE void put(const typename Format::V (&folded)[kCount], size_t offset) const {
    const size_t stride = hn::Lanes(typename Format::D()) * Format::kBytes;
    for (size_t v = 0; v < kCount; ++v) Format::store(folded[v], out + offset + v * stride);
  }
  template <class Format>
  HWY_INLINE void put_rest(typename Format::V folded, size_t offset, size_t count) const {
    store_some<Format>(folded, out + offset, count);
  }
};

// Several vectors, all alike, perhaps past the caches:
template <bool kStream>
struct ToAll {
  static constexpr size_t kVectors = kStream ? 1 : 4;  // a line of each output in turn
  void* const* outs;
  size_t n;
  template <class Format, size_t kCount>
  HWY_INLINE void put(const typename Format::V (&folded)[kCount], size_t offset) const {
    const size_t stride = hn::Lanes(typename Format::D()) * Format::kBytes;
    for (size_t k = 0; k < n; ++k)
      for (size_t v = 0; v < kCount; ++v)
        Format::template store<kStream>(folded[v], static_cast<uint8_t*>(outs[k]) + offset + v * stride);
  }
  template <class Format>
  HWY_INLINE void put_rest(typename Format::V folded, size_t offset, size_t count) const {
    for (size_t k = 0; k < n; ++k)
      store_some<Format>(folded, static_cast<uint8_t*>(outs[k]) + offset, count);
  }
};

// A loop over elements: kVectors registers at a time, all operands of each in turn.
template <class Format, class Op, size_t kVectors, class Target>
HWY_INLINE void fold_block(const Target& target, const void* const* inputs, size_t n, size_t offset,
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
  for (size_t v = 0; v < kVectors; ++v) folded[v] = Op::finish(d, folded[v], divisor);
  target.template put<Format>(folded, offset);
}

template <class Format, class Op, class Target>
HWY_INLINE void fold_rest(const Target& target, const void* const* inputs, size_t n, size_t offset,
                          size_t count, uint32_t divisor) {
  const typename Format::D d;
  auto folded = load_some<Format>(static_cast<const uint8_t*>(inputs[0]) + offset, count);
  for (size_t k = 1; k < n; ++k) {
    const uint8_t* next = static_cast<const uint8_t*>(inputs[k]) + offset;
    folded = Op::apply(d, folded, load_some<Format>(next, count));
  }
  target.template put_rest<Format>(Op::finish(d, folded, divisor), offset, count);
}

template <class Format, class Op, class Target>
HWY_INLINE void fold_all(const Target& target, const void* const* inputs, size_t n, size_t count,
                         uint32_t divisor) {
  constexpr size_t kVectors = Target::kVectors;
  const size_t lanes = hn::Lanes(typename Format::D());
  size_t i = 0;
  for (; i + kVectors * lanes <= count; i += kVectors * lanes)
    fold_block<Format, Op, kVectors>(target, inputs, n, i * Format::kBytes, divisor);
  for (; i + lanes <= count; i += lanes)
    fold_block<Format, Op, 1>(target, inputs, n, i * Format::kBytes, divisor);
  if (i < count) fold_rest<Format, Op>(target, inputs, n, i * Format::kBytes, count - i, divisor);
}

// A ReduceKernel. Two operands, the most frequent case, get loops of their own.
template <class Format, class Op>
void fold(void* out, const void* const* inputs, size_t n, size_t count, uint32_t divisor) {
  const ToOne target{static_cast<uint8_t*>(out)};
  if (n == 2) {
    fold_all<Format, Op>(target, inputs, 2, count, divisor);
  } else if (n == 1 && divisor == 1) {
    if (out != inputs[0] && count > 0) std::memcpy(out, inputs[0], count * Format::kBytes);
  } else {
    fold_all<Format, Op>(target, inputs, n, count, divisor);
  }
}

// A ReduceKernel for avg: without a division, it is the sum.
template <class SumFormat, class Format, class Average>
void fold_average(void* out, const void* const* inputs, size_t n, size_t count, uint32_t divisor) {
  if (divisor == 1) return fold<SumFormat, Sum>(out, inputs, n, count, 1);
  fold_all<Format, Average>(ToOne{static_cast<uint8_t*>(out)}, inputs, n, count, divisor);
}

// A SpreadKernel.
template <class Format, class Op>
void spread(void* const* outs, const void* const* inputs, size_t n, size_t count, uint32_t divisor,
            bool stream) {
  for (size_t k = 0; k < n; ++k) stream = stream && reinterpret_cast<uintptr_t>(outs[k]) % 64 == 0;
  if (stream) {
    fold_all<Format, Op>(ToAll<true>{outs, n}, inputs, n, count, divisor);
    hwy::FlushStream();
  } else if (n == 2) {
    fold_all<Format, Op>(ToAll<false>{outs, 2}, inputs, 2, count, divisor);
  } else {
    fold_all<Format, Op>(ToAll<false>{outs, n}, inputs, n, count, divisor);
  }
}

template <class SumFormat, class Format, class Average>
void spread_average(void* const* outs, const void* const* inputs, size_t n, size_t count,
                    uint32_t divisor, bool stream) {
  if (divisor == 1) return spread<SumFormat, Sum>(outs, inputs, n, count, 1, stream);
  spread<Format, Average>(outs, inputs, n, count, divisor, stream);
}

template <class Format, class Op>
ReduceKernels kernels() {
  return {&fold<Format, Op>, &spread<Format, Op>};
}
template <class SumFormat, class Format, class Average>
ReduceKernels average_kernels() {
  return {&fold_average<SumFormat, Format, Average>, &spread_average<SumFormat, Format, Average>};
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
