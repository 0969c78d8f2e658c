// SPDX-License-Identifier: Apache-2.0
// Formats of floats, and rounding into them.
#include "tools/scalar.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace unisono {
namespace {

int bias(const FloatFormat& format) {
  return (1 << (format.exponent_bits - 1)) - 1;
}
int stored_bits(const FloatFormat& format) {
  return format.significand_bits - 1;
}

}  // namespace

double FloatFormat::unit_roundoff() const {
  return std::ldexp(1.0, -significand_bits);
}
double FloatFormat::least_subnormal() const {
  return std::ldexp(1.0, 1 - bias(*this) - stored_bits(*this));
}

FloatFormat float_format(DataType type) {
  switch (type) {
    case DataType::kFloat16: return {5, 11};
    case DataType::kBfloat16: return {8, 8};
    case DataType::kFloat32: return {8, 24};
    default: assert(type == DataType::kFloat64); return {11, 53};
  }
}

uint64_t bits_of(DataType type, double value) {
  if (type == DataType::kFloat64) return std::bit_cast<uint64_t>(value);
  if (type == DataType::kFloat32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  const FloatFormat format = float_format(type);
  const int stored = stored_bits(format), least_exponent = 1 - bias(format);
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (format.exponent_bits + stored) : 0;
  const uint64_t infinity = ((uint64_t{1} << format.exponent_bits) - 1) << stored;
  if (std::isnan(value)) return infinity + (uint64_t{1} << (stored - 1));
  if (value == 0) return sign;
  if (std::isinf(value)) return sign | infinity;
  const int exponent = std::max(std::ilogb(value), least_exponent);
  // In units of the last place; a carry out of the significand raises the exponent by itself.
  const double units = std::nearbyint(std::ldexp(std::fabs(value), stored - exponent));
  const uint64_t bits =
      (static_cast<uint64_t>(exponent - least_exponent) << stored) + static_cast<uint64_t>(units);
  return sign | std::min(bits, infinity);
}

double half_to_double(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int significand = bits & 1023;
  double value;
  if (exponent == 31) {
    value = significand == 0 ? HUGE_VAL : std::nan("");
  } else {
    value = exponent == 0 ? std::ldexp(significand, -24)
                          : std::ldexp(significand + 1024, exponent - 25);
  }
  return bits & 0x8000 ? -value : value;
}

double load(DataType type, const void* element) {
  switch (type) {
    case DataType::kInt8: return load<DataType::kInt8>(element);
    case DataType::kUint8: return load<DataType::kUint8>(element);
    case DataType::kInt32: return load<DataType::kInt32>(element);
    case DataType::kUint32: return load<DataType::kUint32>(element);
    case DataType::kInt64: return load<DataType::kInt64>(element);
    case DataType::kUint64: return load<DataType::kUint64>(element);
    case DataType::kFloat16: return load<DataType::kFloat16>(element);
    case DataType::kBfloat16: return load<DataType::kBfloat16>(element);
    case DataType::kFloat32: return load<DataType::kFloat32>(element);
    case DataType::kFloat64: return load<DataType::kFloat64>(element);
  }
  return 0;
}

}  // namespace unisono
