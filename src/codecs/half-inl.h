// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of a codec that is a 16-bit float format, element by element.
#if defined(UNISONO_CODECS_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNISONO_CODECS_HALF_INL_H_
#undef UNISONO_CODECS_HALF_INL_H_
#else
#define UNISONO_CODECS_HALF_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

// Stores the half of e = value + residual; returns the new residual.
template <class Half>
HWY_INLINE typename Half::V encode_vector(typename Half::V value, typename Half::V residual,
                                          uint8_t* half) {
  const auto e = hn::Add(value, residual);
  Half::store(e, half);
  const auto decoded = Half::load(half);
  return hn::IfThenElse(hn::IsFinite(decoded), hn::Sub(e, decoded), residual);
}

template <class Half>
void encode_half(const void* values, void* residual, size_t count, void* wire) {
  using Float = Plain<float>;
  const auto* from = static_cast<const uint8_t*>(values);
  auto* left = static_cast<uint8_t*>(residual);
  auto* to = static_cast<uint8_t*>(wire);
  const size_t lanes = hn::Lanes(typename Half::D());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = Float::load(from + 4 * i);
    if (left == nullptr) {
      Half::store(value, to + 2 * i);
    } else {
      const auto old = Float::load(left + 4 * i);
      Float::store(encode_vector<Half>(value, old, to + 2 * i), left + 4 * i);
    }
  }
  if (i == count) return;
  const size_t rest = count - i;
  const auto value = load_some<Float>(from + 4 * i, rest);
  if (left == nullptr) return store_some<Half>(value, to + 2 * i, rest);
  alignas(64) uint8_t halves[hn::MaxLanes(typename Half::D()) * Half::kBytes];
  const auto old = load_some<Float>(left + 4 * i, rest);
  store_some<Float>(encode_vector<Half>(value, old, halves), left + 4 * i, rest);
  std::memcpy(to + 2 * i, halves, 2 * rest);
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
