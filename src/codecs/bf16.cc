// SPDX-License-Identifier: Apache-2.0
// bf16: each element as the upper half of its float32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/bf16.cc"
#include <hwy/foreach_target.h>

#include "codecs/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {
namespace {

void encode(const void* values, void* residual, size_t count, void* wire) {
  encode_half<Bfloat16>(values, residual, count, wire);
}

}  // namespace
}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "codecs/half.h"

namespace unisono {
namespace {

HWY_EXPORT(encode);

// Half a unit in the last place, of normal and of subnormal numbers; what rounds to infinity.
constexpr HalfFormat kFormat = {0x1p-8, 0x1p-134, 0x1.ffp127};

}  // namespace

extern const Codec kBf16Codec;
constinit const Codec kBf16Codec = half_codec<DataType::kBfloat16, kFormat>(
    "bf16", "the upper half of its float32, 1/2 of the bytes",
    "NaN and infinities stay; from 2^128 - 2^119 up becomes an infinity; subnormal numbers are "
    "kept "
    "down to 2^-133",
    [](const void* values, void* residual, size_t count, void* wire) {
      HWY_DYNAMIC_DISPATCH(encode)(values, residual, count, wire);
    });

}  // namespace unisono
#endif
