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
#include "codecs/codec.h"
#include "codecs/half.h"

namespace unisono {
namespace {

HWY_EXPORT(encode);

// Half a unit in the last place, of normal and of subnormal numbers; what rounds to infinity.
constexpr HalfFormat kFormat = {0x1p-11, 0x1p-25, 65520.0};

}  // namespace

extern const Codec kFp16Codec;
const Codec kFp16Codec = {
    .name = "fp16",
    .summary = "IEEE binary16, 1/2 of the bytes",
    .special_values =
        "NaN and infinities stay; from 65520 up becomes an infinity; subnormal numbers are kept "
        "down to 2^-24",
    .ops = kHalfOps,
    .relative_error = kFormat.relative_error,
    .advised_quantisations = 0,
    .wire_size = [](size_t count) { return 2 * count; },
    .encode =
        [](const void* values, void* residual, size_t count, void* wire) {
          HWY_DYNAMIC_DISPATCH(encode)
          (values, residual, count, wire);
        },
    .decode = [](const void* wire, size_t, size_t first, size_t n,
                 void* values) { decode_half(DataType::kFloat16, wire, first, n, values); },
    .error_bound = [](const float* values,
                      size_t count) { return half_error(kFormat, values, count); },
};

}  // namespace unisono
#endif
