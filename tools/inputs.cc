// SPDX-License-Identifier: Apache-2.0
// The two input sets.
#include "tools/inputs.h"

#include <algorithm>
#include <cmath>

#include "tools/scalar.h"

namespace unisono {
namespace {

// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}
// 64 random bits for a place of a rank's pattern.
uint64_t random_bits(int rank, size_t index) {
  return mix(mix(index) + static_cast<uint64_t>(rank));
}
// Random bits that all ranks share.
uint64_t shared_bits(size_t index) {
  return mix(~index);
}
// [0, 1)
double fraction(uint64_t bits) {
  return std::ldexp(static_cast<double>(bits >> 11), -53);
}

// min and max: an eighth bit that one rank alone has, in turn, decides; so that each rank is once
// the one that counts, and no two are equal there. 64…127 for all others.
uint64_t contender(ReduceOp op, int rank, size_t index, int ranks) {
  const uint64_t ordinary = 64 + (random_bits(rank, index) >> 58);
  if (index % static_cast<size_t>(ranks) != static_cast<size_t>(rank)) return ordinary;
  return op == ReduceOp::kMax ? ordinary + 64 : ordinary - 64;
}

// Every `stride`-th rank, in turn over the places of a pattern.
bool takes_turn(int rank, size_t index, int stride) {
  return (index + static_cast<size_t>(rank)) % static_cast<size_t>(stride) == 0;
}
int divided_up(int64_t a, int64_t b) {
  return static_cast<int>((a + b - 1) / b);
}

bool is_signed(DataType type) {
  return type == DataType::kInt8 || type == DataType::kInt32 || type == DataType::kInt64;
}
int width_of(DataType type) {
  return static_cast<int>(8 * size_of(type));
}
uint64_t truncated(DataType type, uint64_t bits) {
  return bits & (~uint64_t{0} >> (64 - width_of(type)));
}
int64_t extended(DataType type, uint64_t bits) {
  const int unused = 64 - width_of(type);
  return static_cast<int64_t>(bits << unused) >> unused;
}

}  // namespace

uint64_t ExactInputs::value(int rank, size_t index) const {
  return is_float(type_) ? bits_of(type_, real(rank, index)) : integer(rank, index);
}

uint64_t ExactInputs::result(size_t index) const {
  return is_float(type_) ? bits_of(type_, real_result(index)) : integer_result(index);
}

uint64_t ExactInputs::integer(int rank, size_t index) const {
  const uint64_t bits = truncated(type_, random_bits(rank, index));
  const int low_bits = width_of(type_) - 8;
  switch (op_) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return std::max<uint64_t>(bits, 1);
    case ReduceOp::kProd:  // odd, so that no factor is lost in the wrapping; not 1
      return std::max<uint64_t>(bits | 1, 3);
    case ReduceOp::kMin:
    case ReduceOp::kMax: {
      const uint64_t top = contender(op_, rank, index, ranks_) ^ (is_signed(type_) ? 128 : 0);
      return (top << low_bits) | (bits & ((uint64_t{1} << low_bits) - 1));
    }
  }
  return 0;
}

uint64_t ExactInputs::integer_result(size_t index) const {
  uint64_t result = integer(0, index);
  for (int rank = 1; rank < ranks_; ++rank) {
    const uint64_t next = integer(rank, index);
    const bool less =
        is_signed(type_) ? extended(type_, next) < extended(type_, result) : next < result;
    switch (op_) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg: result = truncated(type_, result + next); break;
      case ReduceOp::kProd: result = truncated(type_, result * next); break;
      case ReduceOp::kMin: result = less ? next : result; break;
      case ReduceOp::kMax: result = less ? result : next; break;
    }
  }
  if (op_ != ReduceOp::kAvg) return result;
  return is_signed(type_)
             ? truncated(type_, static_cast<uint64_t>(extended(type_, result) / ranks_))
             : result / static_cast<uint64_t>(ranks_);
}

double ExactInputs::real(int rank, size_t index) const {
  const uint64_t bits = random_bits(rank, index);
  const double sign = bits & 1 ? -1 : 1;
  switch (op_) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: {
      // Whole numbers whose every partial sum the significand holds; with more ranks than that
      // allows, only some contribute to a place.
      const int64_t most = int64_t{1} << float_format(type_).significand_bits;
      const int stride = divided_up(ranks_, most);
      if (!takes_turn(rank, index, stride)) return 0;
      const int64_t limit = most / divided_up(ranks_, stride);
      return sign * static_cast<double>(1 + (bits >> 1) % static_cast<uint64_t>(limit));
    }
    case ReduceOp::kProd: {
      // Powers of two: at most 8 ranks move the exponent of a place by one.
      if (!takes_turn(rank, index, divided_up(ranks_, 8))) return sign;
      return sign * (bits & 2 ? 2.0 : 0.5);
    }
    case ReduceOp::kMin:
    case ReduceOp::kMax: return static_cast<double>(contender(op_, rank, index, ranks_)) - 96;
  }
  return 0;
}

double ExactInputs::real_result(size_t index) const {
  double result = real(0, index);
  for (int rank = 1; rank < ranks_; ++rank) {
    const double next = real(rank, index);
    switch (op_) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg: result += next; break;
      case ReduceOp::kProd: result *= next; break;
      case ReduceOp::kMin: result = std::min(result, next); break;
      case ReduceOp::kMax: result = std::max(result, next); break;
    }
  }
  if (op_ != ReduceOp::kAvg) return result;
  // As declared: 16-bit floats divide in float32 and round once more.
  if (type_ == DataType::kFloat64) return result / ranks_;
  return static_cast<float>(result) / static_cast<float>(ranks_);
}

double OrderSensitiveInputs::value(int rank, size_t index) const {
  const double wanted = op_ == ReduceOp::kProd ? factor(rank, index) : term(rank, index);
  const uint64_t bits = bits_of(type_, wanted);
  return load(type_, &bits);
}

// Magnitudes over ten powers of two; and in one place of four two ranks hold large values that
// cancel, so that what was added before them is rounded away, and what comes after is not.
double OrderSensitiveInputs::term(int rank, size_t index) const {
  const uint64_t bits = random_bits(rank, index);
  const uint64_t shared = shared_bits(index);
  if (ranks_ >= 3 && shared % 4 == 0) {
    const auto p = static_cast<uint64_t>(ranks_);
    const int large = static_cast<int>((shared >> 2) % p);
    const int opposite = static_cast<int>((large + 1 + (shared >> 32) % (p - 1)) % p);
    const int exponent = type_ == DataType::kFloat16 ? 13 : type_ == DataType::kFloat64 ? 50 : 20;
    if (rank == large) return std::ldexp(1 + fraction(shared), exponent);
    if (rank == opposite) return -std::ldexp(1 + fraction(shared), exponent);
  }
  const int exponent = -static_cast<int>((bits >> 1) % 11);
  return (bits & 1 ? -1 : 1) * std::ldexp(1 + fraction(bits), exponent);
}

// All partial products stay within 2^±8.
double OrderSensitiveInputs::factor(int rank, size_t index) const {
  const uint64_t bits = random_bits(rank, index);
  const double range = std::min(0.5, 8.0 / ranks_);
  return (bits & 1 ? -1 : 1) * std::exp2(range * (2 * fraction(bits) - 1));
}

// Each operand passes at most p−1 roundings on its way into any sum or product, and one in a
// division (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, chapters 3 and 4).
OrderSensitiveInputs::Expected OrderSensitiveInputs::result(size_t index) const {
  const bool is_product = op_ == ReduceOp::kProd, is_average = op_ == ReduceOp::kAvg;
  long double result = is_product ? 1 : 0, magnitude = result;
  for (int rank = 0; rank < ranks_; ++rank) {
    const long double next = value(rank, index);
    result = is_product ? result * next : result + next;
    magnitude = is_product ? magnitude * std::fabs(next) : magnitude + std::fabs(next);
  }
  if (is_average) {
    result /= ranks_;
    magnitude /= ranks_;
  }
  const FloatFormat format = float_format(type_);
  const double in_float32 = size_of(type_) == 2 ? std::ldexp(1.0, -24) : 0;
  const int roundings = ranks_ - 1 + (is_average && ranks_ > 1);
  // The reference is itself rounded to float64.
  const double of_reference = roundings == 0 ? 0 : std::ldexp(1.0, -53);
  const double growth =
      std::expm1(roundings * std::log1p(format.unit_roundoff() + in_float32)) + of_reference;
  return {static_cast<double>(result),
          growth * static_cast<double>(magnitude) + roundings * format.least_subnormal()};
}

}  // namespace unisono
