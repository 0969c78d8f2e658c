// SPDX-License-Identifier: Apache-2.0
#include "bench/floor_kernels.h"

#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/floor_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// first[i…] = load(i) for whole vectors; returns how many elements those were.
template <bool kStream, bool kHasSecond, bool kStreamSecond, class Load>
size_t store_all(Load load, float* HWY_RESTRICT first, float* HWY_RESTRICT second, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = load(d, i);
    if constexpr (kStream)
      hn::Stream(value, d, first + i);
    else
      hn::StoreU(value, d, first + i);
    if constexpr (kStreamSecond)
      hn::Stream(value, d, second + i);
    else if constexpr (kHasSecond)
      hn::StoreU(value, d, second + i);
  }
  if constexpr (kStream) hwy::FlushStream();
  return i;
}

bool streams(const Target& target) {
  return target.stores == Stores::kNonTemporal &&
         reinterpret_cast<uintptr_t>(target.data) % 64 == 0;
}

template <class Load>
size_t store(Load load, const Target& first, const Target& second, size_t count) {
  float *a = first.data, *b = second.data;
  if (!streams(first))
    return b == nullptr ? store_all<false, false, false>(load, a, b, count)
                        : store_all<false, true, false>(load, a, b, count);
  if (b == nullptr) return store_all<true, false, false>(load, a, b, count);
  return streams(second) ? store_all<true, true, true>(load, a, b, count)
                         : store_all<true, true, false>(load, a, b, count);
}

size_t add(const float* a, const float* b, const Target& first, const Target& second,
           size_t count) {
  const auto load = [=](auto d, size_t i)
                        HWY_ATTR { return hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)); };
  return store(load, first, second, count);
}

size_t copy(const float* input, const Target& output, size_t count) {
  const auto load = [=](auto d, size_t i) HWY_ATTR { return hn::LoadU(d, input + i); };
  return store(load, output, {}, count);
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unisono {

HWY_EXPORT(add);
HWY_EXPORT(copy);

void floor_add(const float* a, const float* b, Target first, Target second, size_t count) {
  for (size_t i = HWY_DYNAMIC_DISPATCH(add)(a, b, first, second, count); i < count; ++i) {
    first.data[i] = a[i] + b[i];
    if (second.data != nullptr) second.data[i] = first.data[i];
  }
}

void floor_copy(const float* input, float* output, size_t count, Stores stores) {
  const size_t i = HWY_DYNAMIC_DISPATCH(copy)(input, {output, stores}, count);
  std::memcpy(output + i, input + i, (count - i) * sizeof(float));
}

}  // namespace unisono
#endif
