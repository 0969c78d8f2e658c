// SPDX-License-Identifier: Apache-2.0
// What reductions and 16-bit conversions must give, in plain C++, one element at a time.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/types.h"

namespace unisono::reference {

// A binary floating-point format of 16 bits with `kDigits` stored mantissa bits; by way of real
// numbers.
template <int kDigits>
struct Half {
  static constexpr int kExponentBits = 15 - kDigits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr uint16_t kInfinity = ((1 << kExponentBits) - 1) << kDigits;

  static float to_float(uint16_t bits) {
    const int exponent = (bits & 0x7fff) >> kDigits, mantissa = bits & ((1 << kDigits) - 1);
    float size;
    if ((bits & 0x7fff) > kInfinity)
      size = std::numeric_limits<float>::quiet_NaN();
    else if ((bits & 0x7fff) == kInfinity)
      size = std::numeric_limits<float>::infinity();
    else if (exponent == 0)
      size = std::ldexp(float(mantissa), 1 - kBias - kDigits);
    else
      size = std::ldexp(float(mantissa + (1 << kDigits)), exponent - kBias - kDigits);
    return std::copysign(size, bits & 0x8000 ? -1.0f : 1.0f);
  }
  static uint16_t from_float(float value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return sign | kInfinity | (1 << (kDigits - 1));
    if (std::isinf(value)) return sign | kInfinity;
    const double size = std::fabs(double(value));
    int exponent = size == 0 ? 1 - kBias : std::ilogb(size);
    if (exponent < 1 - kBias) exponent = 1 - kBias;
    // Ties to even by the default rounding mode; a carry moves on into the exponent by itself.
    const double units = std::nearbyint(std::ldexp(size, kDigits - exponent));
    const double bits = units + std::ldexp(double(exponent + kBias - 1), kDigits);
    return sign | (bits >= kInfinity ? kInfinity : static_cast<uint16_t>(bits));
  }
};
using Float16 = Half<10>;
using Bfloat16 = Half<7>;

template <class T>
T combine(ReduceOp op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    switch (op) {
      case ReduceOp::kProd:
        return static_cast<T>(x * y);
      case ReduceOp::kMin:
        return a < b ? a : b;
      case ReduceOp::kMax:
        return a > b ? a : b;
      default:
        return static_cast<T>(x + y);
    }
  } else {
    const bool first = a < b || (a == b && std::signbit(a));
    switch (op) {
      case ReduceOp::kProd:
        return a * b;
      case ReduceOp::kMin:
        return std::isnan(a) || std::isnan(b) ? a + b : first ? a : b;
      case ReduceOp::kMax:
        return std::isnan(a) || std::isnan(b) ? a + b : first ? b : a;
      default:
        return a + b;
    }
  }
}

template <class T>
T divide(T a, uint32_t divisor) {
  if constexpr (std::is_same_v<T, uint64_t>)
    return a / divisor;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(int64_t(a) / int64_t(divisor));
  else
    return a / static_cast<T>(divisor);
}

// Calls `use` with a codec of elements: load(const void*) → accumulator, store(accumulator, void*).
template <class T>
struct Same {
  static T load(const void* from) {
    T v;
    std::memcpy(&v, from, sizeof(v));
    return v;
  }
  static void store(T v, void* to) { std::memcpy(to, &v, sizeof(v)); }
};
template <class H>
struct Through {
  static float load(const void* from) { return H::to_float(Same<uint16_t>::load(from)); }
  static void store(float v, void* to) { Same<uint16_t>::store(H::from_float(v), to); }
};
template <class Use>
void with_type(DataType type, Use use) {
  switch (type) {
    case DataType::kInt8:
      return use(Same<int8_t>());
    case DataType::kUint8:
      return use(Same<uint8_t>());
    case DataType::kInt32:
      return use(Same<int32_t>());
    case DataType::kUint32:
      return use(Same<uint32_t>());
    case DataType::kInt64:
      return use(Same<int64_t>());
    case DataType::kUint64:
      return use(Same<uint64_t>());
    case DataType::kFloat16:
      return use(Through<Float16>());
    case DataType::kBfloat16:
      return use(Through<Bfloat16>());
    case DataType::kFloat32:
      return use(Same<float>());
    case DataType::kFloat64:
      return use(Same<double>());
  }
}

// The contract of ReduceKernel, for vectors of any alignment.
inline void reduce(DataType type, ReduceOp op, void* out, const void* const* inputs, size_t n,
                   size_t count, uint32_t divisor) {
  with_type(type, [&]<class Element>(Element) {
    for (size_t i = 0; i < count; ++i) {
      const size_t offset = i * size_of(type);
      auto folded = Element::load(static_cast<const uint8_t*>(inputs[0]) + offset);
      for (size_t k = 1; k < n; ++k)
        folded =
            combine(op, folded, Element::load(static_cast<const uint8_t*>(inputs[k]) + offset));
      if (divisor != 1) folded = divide(folded, divisor);
      Element::store(folded, static_cast<uint8_t*>(out) + offset);
    }
  });
}

// Replaces every NaN by one, so that vectors can be compared by their bytes.
inline void unify_nans(DataType type, void* vector, size_t count) {
  if (!is_float(type)) return;
  with_type(type, [&]<class Element>(Element) {
    for (size_t i = 0; i < count; ++i) {
      uint8_t* element = static_cast<uint8_t*>(vector) + i * size_of(type);
      const auto value = Element::load(element);
      if (value != value)
        Element::store(std::numeric_limits<decltype(value)>::quiet_NaN(), element);
    }
  });
}

}  // namespace unisono::reference
