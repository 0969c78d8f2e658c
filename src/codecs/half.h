// SPDX-License-Identifier: Apache-2.0
// What the codecs of 16-bit floats share. Inside src/codecs only.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "codecs/codec.h"
#include "kernels/convert.h"

namespace unisono {

struct HalfFormat {
  double relative_error;  // half a unit in the last place of a normal number
  double smallest_error;  // half the smallest subnormal number
  double overflow;        // magnitudes that round to infinity begin here
};

// A product of values with bounded errors has no bounded error.
inline constexpr ReduceOp kHalfOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                                        ReduceOp::kAvg};

inline double half_error(const HalfFormat& format, const float* values, size_t count) {
  double error = 0;
  for (size_t i = 0; i < count; ++i) {
    const double size = std::fabs(static_cast<double>(values[i]));
    if (size >= format.overflow) return std::numeric_limits<double>::infinity();
    error = std::max(error,
                     std::min(size, std::max(size * format.relative_error, format.smallest_error)));
  }
  return error;
}

// A row of the table, for what differs between them.
template <DataType kHalf, const HalfFormat& kFormat>
constexpr Codec half_codec(std::string_view name, std::string_view summary,
                           std::string_view special_values, decltype(Codec::encode) encode) {
  return {
      .name = name,
      .summary = summary,
      .special_values = special_values,
      .ops = kHalfOps,
      .relative_error = kFormat.relative_error,
      .advised_quantisations = 0,
      .wire_size = [](size_t count) { return 2 * count; },
      .encode = encode,
      .decode =
          [](const void* wire, size_t, size_t first, size_t n, void* values) {
            to_float32_kernel(kHalf)(values, static_cast<const std::byte*>(wire) + 2 * first, n);
          },
      .error_bound = [](const float* values,
                        size_t count) { return half_error(kFormat, values, count); },
  };
}

}  // namespace unisono
