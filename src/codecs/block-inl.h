// SPDX-License-Identifier: Apache-2.0
// Reading a block of values plus residual once, in groups of 16 lanes on every instruction set.
//
// Sums over groups have the same order everywhere: lane j of 16 holds elements j, j + 16, j + 32 …
#if defined(UNISONO_CODECS_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef UNISONO_CODECS_BLOCK_INL_H_
#undef UNISONO_CODECS_BLOCK_INL_H_
#else
#define UNISONO_CODECS_BLOCK_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

using Lanes = hn::CappedTag<float, 16>;
using Floats = hn::VFromD<Lanes>;
constexpr size_t kGroup = 16;
constexpr size_t kParts = kGroup / hn::MaxLanes(Lanes());

struct Group {
  Floats part[kParts];
};

HWY_INLINE Group load_group(const uint8_t* from) {
  Group group;
  for (size_t p = 0; p < kParts; ++p)
    group.part[p] = load_any(Lanes(), from + p * sizeof(float) * hn::Lanes(Lanes()));
  return group;
}

HWY_INLINE void store_group(const Group& group, uint8_t* to) {
  for (size_t p = 0; p < kParts; ++p)
    store_any(Lanes(), group.part[p], to + p * sizeof(float) * hn::Lanes(Lanes()));
}

// The first n < 16 elements of a group; the others are 0.
HWY_INLINE Group load_part_of_group(const uint8_t* from, size_t n) {
  alignas(64) uint8_t buffer[kGroup * sizeof(float)] = {};
  std::memcpy(buffer, from, n * sizeof(float));
  return load_group(buffer);
}

HWY_INLINE void store_part_of_group(const Group& group, uint8_t* to, size_t n) {
  alignas(64) uint8_t buffer[kGroup * sizeof(float)];
  store_group(group, buffer);
  std::memcpy(to, buffer, n * sizeof(float));
}

HWY_INLINE Group sum(Group a, const Group& b) {
  for (size_t p = 0; p < kParts; ++p) a.part[p] = hn::Add(a.part[p], b.part[p]);
  return a;
}

// The work on a block keeps the processor from looking far enough ahead by itself; and its own
// prefetching ends at each page. An address past the end does no harm.
HWY_INLINE void prefetch(const uint8_t* from) {
  constexpr size_t kAhead = 4096;
  hwy::Prefetch(reinterpret_cast<const uint8_t*>(reinterpret_cast<uintptr_t>(from) + kAhead));
}

// e = values (+ residual if there is one), for n elements, padded with zeros to whole groups. Each
// group is shown to `seen(first element, group)`.
template <class Seen>
HWY_INLINE void gather(const uint8_t* values, const uint8_t* residual, size_t n, uint8_t* e,
                       Seen& seen) {
  size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    prefetch(values + i * sizeof(float));
    Group group = load_group(values + i * sizeof(float));
    if (residual != nullptr) {
      prefetch(residual + i * sizeof(float));
      group = sum(group, load_group(residual + i * sizeof(float)));
    }
    store_group(group, e + i * sizeof(float));
    seen.add(i, group);
  }
  if (i == n) return;
  Group group = load_part_of_group(values + i * sizeof(float), n - i);
  if (residual != nullptr)
    group = sum(group, load_part_of_group(residual + i * sizeof(float), n - i));
  store_group(group, e + i * sizeof(float));
  seen.add(i, group);
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
