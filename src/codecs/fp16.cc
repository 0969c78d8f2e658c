// SPDX-License-Identifier: Apache-2.0
// fp16: each element as IEEE binary16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/fp16.cc"
#include <hwy/foreach_target.h>

#include "codecs/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {
namespace {

void encode(const void* values, void* residual, size_t count, void* wire) {
  encode_half<Float16>(values, residual, count, wire);
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
constexpr HalfFormat kFormat = {0x1p-11, 0x1p-25, 65520.0};

}  // namespace

extern const Codec kFp16Codec;
constinit const Codec kFp16Codec = half_codec<DataType::kFloat16, kFormat>(
    "fp16", "IEEE binary16, 1/2 of the bytes",
    "NaN and infinities stay; from 65520 up becomes an infinity; subnormal numbers are kept down "
    "to 2^-24",
    [](const void* values, void* residual, size_t count, void* wire) {
      HWY_DYNAMIC_DISPATCH(encode)(values, residual, count, wire);
    });

}  // namespace unisono
#endif
