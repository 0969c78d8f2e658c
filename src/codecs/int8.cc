// SPDX-License-Identifier: Apache-2.0
// int8: whole numbers of −127 … 127, times one scale for each block of 256.
//
// Wire: the scale of each block (float32: its largest magnitude / 127), then one signed byte an
// element: value / scale, rounded to nearest even.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/int8.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "codecs/block-inl.h"
#include "codecs/codec.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {
namespace {

constexpr size_t kBlock = 256;
// Blocks with nothing larger become zeros: below, 127 / magnitude would leave float32.
constexpr float kSmallest = 0x1p-110f;
// Adding it rounds a small number to a whole one, which is then found in the low bits of the sum.
constexpr float kRounder = 0x1.8p23f;

using Signed = hn::RebindToSigned<Lanes>;
using Bytes = hn::Rebind<int8_t, Lanes>;

// The largest magnitude of a block while it is read: magnitudes are ordered as their bits, NaN on
// top.
struct Largest {
  hn::VFromD<Signed> part[kParts];

  HWY_INLINE Largest() {
    for (auto& largest : part) largest = hn::Zero(Signed());
  }
  HWY_INLINE void add(size_t, const Group& group) {
    for (size_t p = 0; p < kParts; ++p)
      part[p] = hn::Max(part[p], hn::BitCast(Signed(), hn::Abs(group.part[p])));
  }
  HWY_INLINE float magnitude() const {
    auto largest = part[0];
    for (size_t p = 1; p < kParts; ++p) largest = hn::Max(largest, part[p]);
    return std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(Signed(), largest)));
  }
};

// A group as whole numbers of scale, to 16 bytes; e becomes what they leave of it.
HWY_INLINE Group encode_group(Group e, float scale, float inverse, uint8_t* bytes) {
  const Lanes d;
  const hn::RebindToUnsigned<Lanes> du;
  const hn::Rebind<uint8_t, Lanes> d8;
  for (size_t p = 0; p < kParts; ++p) {
    const auto rounded = hn::Add(hn::Mul(e.part[p], hn::Set(d, inverse)), hn::Set(d, kRounder));
    store_any(d8, hn::TruncateTo(d8, hn::BitCast(du, rounded)), bytes + p * hn::Lanes(d));
    const auto whole = hn::Sub(rounded, hn::Set(d, kRounder));
    e.part[p] = hn::Sub(e.part[p], hn::Mul(whole, hn::Set(d, scale)));
  }
  return e;
}

HWY_INLINE float scale_of(float magnitude) {
  if (!std::isfinite(magnitude)) return std::numeric_limits<float>::quiet_NaN();
  if (magnitude < kSmallest) return 0;
  const float scale = magnitude / 127;
  // Rounded upwards, 127 of it may be too large.
  return std::isfinite(127 * scale) ? scale : std::nextafter(scale, 0.0f);
}

HWY_INLINE void encode_block(const uint8_t* values, uint8_t* residual, size_t n,
                             uint8_t* wire_scale, uint8_t* bytes) {
  alignas(64) uint8_t e[kBlock * sizeof(float)];
  Largest largest;
  gather(values, residual, n, e, largest);
  const float magnitude = largest.magnitude();
  const float scale = scale_of(magnitude);
  std::memcpy(wire_scale, &scale, sizeof(scale));
  if (std::isnan(scale)) {
    std::memset(bytes, 0, n);
    return;
  }
  const float inverse = scale == 0 ? 0 : 127 / magnitude;
  size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    const Group left = encode_group(load_group(e + i * sizeof(float)), scale, inverse, bytes + i);
    if (residual != nullptr) store_group(left, residual + i * sizeof(float));
  }
  if (i == n) return;
  uint8_t rest[kGroup];
  const Group left = encode_group(load_group(e + i * sizeof(float)), scale, inverse, rest);
  std::memcpy(bytes + i, rest, n - i);
  if (residual != nullptr) store_part_of_group(left, residual + i * sizeof(float), n - i);
}

void encode(const void* values, void* residual, size_t count, void* wire) {
  const auto* from = static_cast<const uint8_t*>(values);
  auto* left = static_cast<uint8_t*>(residual);
  auto* scales = static_cast<uint8_t*>(wire);
  uint8_t* bytes = scales + (count + kBlock - 1) / kBlock * sizeof(float);
  for (size_t first = 0; first < count; first += kBlock) {
    encode_block(from + first * sizeof(float),
                 left == nullptr ? nullptr : left + first * sizeof(float),
                 std::min(kBlock, count - first), scales, bytes + first);
    scales += sizeof(float);
  }
}

HWY_INLINE Group decode_group(const uint8_t* bytes, float scale) {
  const Lanes d;
  Group group;
  for (size_t p = 0; p < kParts; ++p) {
    const auto whole = hn::PromoteTo(Signed(), load_any(Bytes(), bytes + p * hn::Lanes(d)));
    group.part[p] = hn::Mul(hn::ConvertTo(d, whole), hn::Set(d, scale));
  }
  return group;
}

HWY_INLINE void decode_block(float scale, const uint8_t* bytes, size_t n, uint8_t* values) {
  size_t i = 0;
  for (; i + kGroup <= n; i += kGroup)
    store_group(decode_group(bytes + i, scale), values + i * sizeof(float));
  if (i == n) return;
  uint8_t rest[kGroup] = {};
  std::memcpy(rest, bytes + i, n - i);
  store_part_of_group(decode_group(rest, scale), values + i * sizeof(float), n - i);
}

void decode(const void* wire, size_t count, size_t first, size_t n, void* values) {
  const auto* scales = static_cast<const uint8_t*>(wire);
  const uint8_t* bytes = scales + (count + kBlock - 1) / kBlock * sizeof(float);
  auto* to = static_cast<uint8_t*>(values);
  for (size_t done = 0; done < n; done += kBlock) {
    float scale;
    std::memcpy(&scale, scales + (first + done) / kBlock * sizeof(scale), sizeof(scale));
    decode_block(scale, bytes + first + done, std::min(kBlock, n - done),
                 to + done * sizeof(float));
  }
}

}  // namespace
}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unisono {
namespace {

HWY_EXPORT(encode);
HWY_EXPORT(decode);

constexpr size_t kBlock = 256;
static_assert(kCodecBlock % kBlock == 0);

// Half a scale, and four roundings of float32.
constexpr double kHalfScale = 1.0 / 254, kArithmetic = 0x1p-21,
                 kRelativeError = kHalfScale + kArithmetic;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAvg};

}  // namespace

extern const Codec kInt8Codec;
const Codec kInt8Codec = {
    .name = "int8",
    .summary = "one byte an element, one float32 scale for each 256, 1/4 of the bytes",
    .special_values =
        "a block with NaN or an infinity decodes to NaN; one with nothing above 2^-110 to "
        "zeros",
    .ops = kOps,
    .relative_error = kRelativeError,
    .advised_quantisations = 2,
    .wire_size = [](size_t count) { return (count + kBlock - 1) / kBlock * sizeof(float) + count; },
    .encode =
        [](const void* values, void* residual, size_t count, void* wire) {
          HWY_DYNAMIC_DISPATCH(encode)
          (values, residual, count, wire);
        },
    .decode =
        [](const void* wire, size_t count, size_t first, size_t n, void* values) {
          HWY_DYNAMIC_DISPATCH(decode)
          (wire, count, first, n, values);
        },
    .error_bound =
        [](const float* values, size_t count) {
          double error = 0;
          for (size_t first = 0; first < count; first += kBlock) {
            double largest = 0;
            for (size_t i = first; i < std::min(count, first + kBlock); ++i)
              largest = std::max(largest, std::fabs(static_cast<double>(values[i])));
            error = std::max(error, largest < 0x1p-110 ? largest : kRelativeError * largest);
          }
          return error;
        },
};

}  // namespace unisono
#endif
