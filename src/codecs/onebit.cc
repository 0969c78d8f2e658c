// SPDX-License-Identifier: Apache-2.0
// onebit: the sign of each element, and for each block of 512 the means of its two signs.
//
// After F. Seide, H. Fu, J. Droppo, G. Li, D. Yu, "1-bit stochastic gradient descent and its
// application to data-parallel distributed training of speech DNNs", Interspeech 2014.
//
// Wire: for each block the mean of the elements below zero and that of the others (two float32),
// then for all elements one bit each, element i in bit i % 8 of byte i / 8; 1: not below zero.
// Unused bits are 0.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codecs/onebit.cc"
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

constexpr size_t kBlock = kCodecBlock;
constexpr size_t kPartBits = kGroup / kParts;

struct Means {
  float below, others;
};

HWY_INLINE float total(const Group& group) {
  alignas(64) float lanes[kGroup];
  store_group(group, reinterpret_cast<uint8_t*>(lanes));
  for (size_t half = kGroup / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

// Signs and sums of a block while it is read.
struct Signs {
  Group below, others;
  uint64_t words[kBlock / 64] = {};

  HWY_INLINE Signs() {
    for (size_t p = 0; p < kParts; ++p) below.part[p] = others.part[p] = hn::Zero(Lanes());
  }
  HWY_INLINE void add(size_t first, const Group& group) {
    uint64_t bits = 0;
    for (size_t p = 0; p < kParts; ++p) {
      const auto is_below = hn::Lt(group.part[p], hn::Zero(Lanes()));
      below.part[p] = hn::Add(below.part[p], hn::IfThenElseZero(is_below, group.part[p]));
      others.part[p] = hn::Add(others.part[p], hn::IfThenZeroElse(is_below, group.part[p]));
      uint8_t part[8] = {};
      hn::StoreMaskBits(Lanes(), is_below, part);
      bits |= static_cast<uint64_t>(part[0] | part[1] << 8) << (p * kPartBits);
    }
    words[first / 64] |= (bits ^ 0xffff) << (first % 64);
  }
  // Padding was read as zeros, which are not below zero.
  HWY_INLINE void cut(size_t n) {
    if (n % 64 != 0) words[n / 64] &= (uint64_t{1} << n % 64) - 1;
  }
  HWY_INLINE size_t not_below() const {
    size_t count = 0;
    for (uint64_t word : words) count += static_cast<size_t>(std::popcount(word));
    return count;
  }
};

// The bits of 16 elements as a group of means.
HWY_INLINE Group spread(const uint8_t* bits, const Means& means) {
  const Lanes d;
  const auto below = hn::Set(d, means.below), others = hn::Set(d, means.others);
  Group group;
  for (size_t p = 0; p < kParts; ++p) {
    uint8_t part[8] = {};
    part[0] = static_cast<uint8_t>(bits[p * kPartBits / 8] >> (p * kPartBits % 8));
    if (kPartBits == 16) part[1] = bits[1];
    if (kPartBits < 8) part[0] &= (1 << kPartBits % 8) - 1;
    group.part[p] = hn::IfThenElse(hn::LoadMaskBits(d, part), others, below);
  }
  return group;
}

HWY_INLINE void leave_residual(const uint8_t* e, const uint8_t* bits, const Means& means, size_t n,
                               uint8_t* residual) {
  size_t i = 0;
  const auto left = [&]() HWY_ATTR {
    Group group = load_group(e + i * sizeof(float));
    const Group decoded = spread(bits + i / 8, means);
    for (size_t p = 0; p < kParts; ++p) group.part[p] = hn::Sub(group.part[p], decoded.part[p]);
    return group;
  };
  for (; i + kGroup <= n; i += kGroup) store_group(left(), residual + i * sizeof(float));
  if (i < n) store_part_of_group(left(), residual + i * sizeof(float), n - i);
}

HWY_INLINE void encode_block(const uint8_t* values, uint8_t* residual, size_t n,
                             uint8_t* wire_means, uint8_t* wire_bits) {
  alignas(64) uint8_t e[kBlock * sizeof(float)];
  Signs signs;
  gather(values, residual, n, e, signs);
  signs.cut(n);
  const size_t not_below = signs.not_below();
  Means means{total(signs.below), total(signs.others)};
  const bool finite = std::isfinite(means.below) && std::isfinite(means.others);
  if (not_below < n) means.below /= static_cast<float>(n - not_below);
  if (not_below > 0) means.others /= static_cast<float>(not_below);
  if (!finite) means.below = means.others = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(wire_means, &means, sizeof(means));
  std::memcpy(wire_bits, signs.words, (n + 7) / 8);
  if (residual != nullptr && finite)
    leave_residual(e, reinterpret_cast<const uint8_t*>(signs.words), means, n, residual);
}

void encode(const void* values, void* residual, size_t count, void* wire) {
  const auto* from = static_cast<const uint8_t*>(values);
  auto* left = static_cast<uint8_t*>(residual);
  auto* means = static_cast<uint8_t*>(wire);
  uint8_t* bits = means + (count + kBlock - 1) / kBlock * sizeof(Means);
  for (size_t first = 0; first < count; first += kBlock) {
    encode_block(from + first * sizeof(float),
                 left == nullptr ? nullptr : left + first * sizeof(float),
                 std::min(kBlock, count - first), means, bits + first / 8);
    means += sizeof(Means);
  }
}

HWY_INLINE void decode_block(const Means& means, const uint8_t* bits, size_t n, uint8_t* values) {
  size_t i = 0;
  for (; i + kGroup <= n; i += kGroup)
    store_group(spread(bits + i / 8, means), values + i * sizeof(float));
  if (i == n) return;
  uint8_t rest[2] = {};
  std::memcpy(rest, bits + i / 8, (n - i + 7) / 8);
  store_part_of_group(spread(rest, means), values + i * sizeof(float), n - i);
}

void decode(const void* wire, size_t count, size_t first, size_t n, void* values) {
  const auto* all_means = static_cast<const uint8_t*>(wire);
  const uint8_t* bits = all_means + (count + kBlock - 1) / kBlock * sizeof(Means);
  auto* to = static_cast<uint8_t*>(values);
  for (size_t done = 0; done < n; done += kBlock) {
    Means means;
    std::memcpy(&means, all_means + (first + done) / kBlock * sizeof(means), sizeof(means));
    decode_block(means, bits + (first + done) / 8, std::min(kBlock, n - done),
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

// The sums have one sign, so 36 additions in a row err by less than 2^-18 of them.
constexpr double kMeanError = 0x1p-18, kSmallest = 0x1p-148;

double block_error(const float* values, size_t n) {
  double sums[2] = {}, largest = 0, error = 0;
  size_t counts[2] = {};
  for (size_t i = 0; i < n; ++i) {
    sums[values[i] < 0] += values[i];
    ++counts[values[i] < 0];
    largest = std::max(largest, std::fabs(static_cast<double>(values[i])));
  }
  if (std::max(std::fabs(sums[0]), std::fabs(sums[1])) > 0.999 * std::numeric_limits<float>::max())
    return std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < n; ++i) {
    const bool below = values[i] < 0;
    const double mean = sums[below] / static_cast<double>(counts[below]);
    error = std::max(error, std::fabs(values[i] - mean));
  }
  return error + kMeanError * largest + kSmallest;
}

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg};

}  // namespace

extern const Codec kOnebitCodec;
const Codec kOnebitCodec = {
    .name = "onebit",
    .summary = "signs and two means for each 512 elements, 1/31 of the bytes; needs error feedback",
    .special_values =
        "a block with NaN or an infinity, or whose sum overflows, decodes to NaN; −0 is not "
        "below zero",
    .ops = kOps,
    .relative_error = 1,
    .advised_quantisations = 2,
    .wire_size =
        [](size_t count) {
          return (count + kCodecBlock - 1) / kCodecBlock * 2 * sizeof(float) + (count + 7) / 8;
        },
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
          for (size_t first = 0; first < count; first += kCodecBlock)
            error =
                std::max(error, block_error(values + first, std::min(kCodecBlock, count - first)));
          return error;
        },
};

}  // namespace unisono
#endif
