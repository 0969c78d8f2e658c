// SPDX-License-Identifier: Apache-2.0
// Formats: how elements of a type lie in memory and in registers. Compiled once for each
// instruction set.
//
// A format names its register tag D, the bytes of one element in memory, and moves one register of elements: load
// from any address, store to any address, or past the caches to an aligned one. The 16-bit floats are float32 in
// registers.
#if defined(UNISONO_KERNELS_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNISONO_KERNELS_VECTORS_INL_H_
#undef UNISONO_KERNELS_VECTORS_INL_H_
#else
#define UNISONO_KERNELS_VECTORS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One-lane targets would dereference a T* that may be misaligned; so go through a copy there.
template <class D>
HWY_INLINE hn::VFromD<D> load_any(D d, const uint8_t* from) {
#if HWY_TARGET == HWY_SCALAR
  hn::TFromD<D> lane;
  std::memcpy(&lane, from, sizeof(lane));
  return hn::Load(d, &lane);
#else
  return hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(from));
#endif
}

template <class D>
HWY_INLINE void store_any(D d, hn::VFromD<D> vector, uint8_t* to) {
#if HWY_TARGET == HWY_SCALAR
  hn::TFromD<D> lane;
  hn::Store(vector, d, &lane);
  std::memcpy(to, &lane, sizeof(lane));
#else
  hn::StoreU(vector, d, reinterpret_cast<hn::TFromD<D>*>(to));
#endif
}

// The same past the caches; `to` is aligned to the vector. Short vectors have no such store.
template <bool kStream, class D>
HWY_INLINE void put_any(D d, hn::VFromD<D> vector, uint8_t* to) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kStream && hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) >= 16)
    return hn::Stream(vector, d, reinterpret_cast<hn::TFromD<D>*>(to));
#endif
  store_any(d, vector, to);
}

// The same in memory and in registers.
template <class T>
struct Plain {
  using D = hn::ScalableTag<T>;
  using V = hn::VFromD<D>;
  static constexpr size_t kBytes = sizeof(T);
  static HWY_INLINE V load(const uint8_t* from) { return load_any(D(), from); }
  template <bool kStream = false>
  static HWY_INLINE void store(V vector, uint8_t* to) { put_any<kStream>(D(), vector, to); }
};

// Unsigned T in memory, a wider unsigned integer in registers; the store truncates.
template <class T, class Wide>
struct Widened {
  using D = hn::ScalableTag<Wide>;
  using V = hn::VFromD<D>;
  using Narrow = hn::Rebind<T, D>;
  static constexpr size_t kBytes = sizeof(T);
  static HWY_INLINE V load(const uint8_t* from) {
    return hn::PromoteTo(D(), load_any(Narrow(), from));
  }
  template <bool kStream = false>
  static HWY_INLINE void store(V vector, uint8_t* to) {
    put_any<kStream>(Narrow(), hn::TruncateTo(Narrow(), vector), to);
  }
};

// The upper half of a float32. Rounded to nearest even in integers, as the AVX-512 instruction
// would flush subnormal numbers. NaN stays NaN: its quiet bit is set.
struct Bfloat16 {
  using D = hn::ScalableTag<float>;
  using V = hn::VFromD<D>;
  using D32 = hn::RebindToUnsigned<D>;
  using D16 = hn::Rebind<uint16_t, D>;
  static constexpr size_t kBytes = 2;
  static HWY_INLINE V load(const uint8_t* from) {
    return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(D32(), load_any(D16(), from))));
  }
  template <bool kStream = false>
  static HWY_INLINE void store(V vector, uint8_t* to) {
    const D32 d32;
    const auto bits = hn::BitCast(d32, vector);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fff)));
    const auto quiet = hn::Or(bits, hn::Set(d32, 0x400000));
    const auto is_nan = hn::RebindMask(d32, hn::IsNaN(vector));
    const auto result = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
    put_any<kStream>(D16(), hn::TruncateTo(D16(), result), to);
  }
};

// IEEE binary16, rounded to nearest even, subnormals kept. NaN stays NaN: its quiet bit is set.
struct Float16 {
  using D = hn::ScalableTag<float>;
  using V = hn::VFromD<D>;
  static constexpr size_t kBytes = 2;
// Highway's own conversions round otherwise where the instruction set has none.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_ARCH_ARM
  using D16 = hn::Rebind<hwy::float16_t, D>;
  static HWY_INLINE V load(const uint8_t* from) {
    return hn::PromoteTo(D(), load_any(D16(), from));
  }
  template <bool kStream = false>
  static HWY_INLINE void store(V vector, uint8_t* to) {
    put_any<kStream>(D16(), hn::DemoteTo(D16(), vector), to);
  }
#else
  // Method: Fabian Giesen, "Half to float done quic", 2012. Subnormal results are rounded by the
  // floating-point unit itself: adding 2^-1 puts their last place at that of a float32.
  using D32 = hn::RebindToUnsigned<D>;
  using D16 = hn::Rebind<uint16_t, D>;
  static HWY_INLINE V load(const uint8_t* from) {
    const D d;
    const D32 d32;
    const auto half = hn::PromoteTo(d32, load_any(D16(), from));
    const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(d32, 0x8000)));
    const auto shifted = hn::ShiftLeft<13>(hn::And(half, hn::Set(d32, 0x7fff)));
    const auto exponent = hn::And(shifted, hn::Set(d32, 0x7c00u << 13));
    const auto normal = hn::Add(shifted, hn::Set(d32, (127u - 15) << 23));
    const auto infinite = hn::Or(shifted, hn::Set(d32, 0xffu << 23));
    const auto nan = hn::Or(infinite, hn::Set(d32, 0x400000));
    const auto tiny =
        hn::BitCast(d32, hn::Sub(hn::BitCast(d, hn::Add(shifted, hn::Set(d32, (127u - 14) << 23))),
                                 hn::BitCast(d, hn::Set(d32, (127u - 14) << 23))));
    auto result = hn::IfThenElse(hn::Eq(exponent, hn::Zero(d32)), tiny, normal);
    result = hn::IfThenElse(hn::Eq(exponent, hn::Set(d32, 0x7c00u << 13)), infinite, result);
    result = hn::IfThenElse(hn::Gt(shifted, hn::Set(d32, 0x7c00u << 13)), nan, result);
    return hn::BitCast(d, hn::Or(result, sign));
  }
  template <bool kStream = false>
  static HWY_INLINE void store(V vector, uint8_t* to) {
    const D d;
    const D32 d32;
    const auto bits = hn::BitCast(d32, vector);
    const auto sign = hn::And(bits, hn::Set(d32, 0x80000000));
    const auto size = hn::Xor(bits, sign);
    const auto odd = hn::And(hn::ShiftRight<13>(size), hn::Set(d32, 1));
    const auto rebased = hn::Sub(size, hn::Set(d32, (127u - 15) << 23));
    const auto normal = hn::ShiftRight<13>(hn::Add(rebased, hn::Add(odd, hn::Set(d32, 0xfff))));
    const auto half = hn::Set(d32, 126u << 23);
    const auto tiny =
        hn::Sub(hn::BitCast(d32, hn::Add(hn::BitCast(d, size), hn::BitCast(d, half))), half);
    const auto nan =
        hn::Or(hn::Set(d32, 0x7e00), hn::And(hn::ShiftRight<13>(size), hn::Set(d32, 0x3ff)));
    auto result = hn::IfThenElse(hn::Lt(size, hn::Set(d32, 113u << 23)), tiny, normal);
    result = hn::IfThenElse(hn::Gt(size, hn::Set(d32, (143u << 23) - 1)), hn::Set(d32, 0x7c00), result);
    result = hn::IfThenElse(hn::Gt(size, hn::Set(d32, 0xffu << 23)), nan, result);
    result = hn::Or(result, hn::ShiftRight<16>(sign));
    put_any<kStream>(D16(), hn::TruncateTo(D16(), result), to);
  }
#endif
};

// Whether one instruction moves some elements of a register and touches nothing behind them.
template <class Format>
constexpr bool kMasks = false;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
template <class T>
constexpr bool kMasks<Plain<T>> = sizeof(T) >= 4;
#endif

// The first `count` elements of a register, 0 < count < lanes; nothing behind them is touched.
// Elements not loaded are 0.
template <class Format>
HWY_INLINE typename Format::V load_some(const uint8_t* from, size_t count) {
  const typename Format::D d;
  if constexpr (kMasks<Format>)
    return hn::MaskedLoad(hn::FirstN(d, count), d, reinterpret_cast<const hn::TFromD<decltype(d)>*>(from));
  alignas(64) uint8_t buffer[hn::MaxLanes(typename Format::D()) * Format::kBytes] = {};
  std::memcpy(buffer, from, count * Format::kBytes);
  return Format::load(buffer);
}

template <class Format>
HWY_INLINE void store_some(typename Format::V vector, uint8_t* to, size_t count) {
  const typename Format::D d;
  if constexpr (kMasks<Format>)
    return hn::BlendedStore(vector, hn::FirstN(d, count), d, reinterpret_cast<hn::TFromD<decltype(d)>*>(to));
  alignas(64) uint8_t buffer[hn::MaxLanes(typename Format::D()) * Format::kBytes];
  Format::store(vector, buffer);
  std::memcpy(to, buffer, count * Format::kBytes);
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
