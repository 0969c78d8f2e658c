// SPDX-License-Identifier: Apache-2.0
// One element at a time: what its bits mean, and the nearest bits of a number. Written apart from
// the kernels on purpose: results are checked against it.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/types.h"

namespace unisono {

struct FloatFormat {
  int exponent_bits;
  int significand_bits;          // with the hidden one
  double unit_roundoff() const;  // largest relative error of one rounding
  double least_subnormal() const;
};
FloatFormat float_format(DataType type);  // precondition: is_float(type)

// The low bits hold the nearest value of `type`, ties to even. Precondition: is_float(type).
uint64_t bits_of(DataType type, double value);

double half_to_double(uint16_t bits);
inline double bfloat16_to_double(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

template <typename T>
T load_as(const void* element) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  return value;
}

// The element's value; beyond 2^53 of i64 and u64, the nearest double.
template <DataType kType>
double load(const void* element) {
  if constexpr (kType == DataType::kInt8) return load_as<int8_t>(element);
  if constexpr (kType == DataType::kUint8) return load_as<uint8_t>(element);
  if constexpr (kType == DataType::kInt32) return load_as<int32_t>(element);
  if constexpr (kType == DataType::kUint32) return load_as<uint32_t>(element);
  if constexpr (kType == DataType::kInt64) return static_cast<double>(load_as<int64_t>(element));
  if constexpr (kType == DataType::kUint64) return static_cast<double>(load_as<uint64_t>(element));
  if constexpr (kType == DataType::kFloat16) return half_to_double(load_as<uint16_t>(element));
  if constexpr (kType == DataType::kBfloat16) return bfloat16_to_double(load_as<uint16_t>(element));
  if constexpr (kType == DataType::kFloat32) return load_as<float>(element);
  if constexpr (kType == DataType::kFloat64) return load_as<double>(element);
}
double load(DataType type, const void* element);

}  // namespace unisono
