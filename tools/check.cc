// SPDX-License-Identifier: Apache-2.0
// Checking of results against the known ones. The inputs themselves are made in inputs.cc.
#include "tools/check.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "tools/inputs.h"
#include "tools/scalar.h"

namespace unisono {
namespace {

// Calls `visit(first element, index in the pattern, elements)` for the pieces of a vector that do
// not wrap around the pattern.
template <typename Visit>
void for_each_piece(size_t shift, size_t count, Visit visit) {
  for (size_t done = 0, index = shift % Problem::kPeriod; done < count;) {
    const size_t piece = std::min(count - done, Problem::kPeriod - index);
    visit(done, index, piece);
    done += piece;
    index = 0;
  }
}

void note(Verdict& verdict, size_t index, double got, double expected) {
  if (verdict.wrong++ > 0) return;
  verdict.first_wrong = index;
  verdict.got = got;
  verdict.expected = expected;
}

double error_of(double got, double expected) {
  if (got == expected) return 0;  // equal infinities too
  const double error = std::fabs(got - expected);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

}  // namespace

std::string_view name_of(InputSet set) {
  return set == InputSet::kExact ? "exact" : "order-sensitive";
}

bool depends_on_order(DataType type, ReduceOp op) {
  return is_float(type) && op != ReduceOp::kMin && op != ReduceOp::kMax;
}

void Verdict::add(const Verdict& later) {
  if (wrong == 0 && later.wrong > 0) {
    first_wrong = later.first_wrong;
    got = later.got;
    expected = later.expected;
  }
  wrong += later.wrong;
  max_error = std::max(max_error, later.max_error);
  error_squares += later.error_squares;
  reference_squares += later.reference_squares;
  share_of_bound = std::max(share_of_bound, later.share_of_bound);
  zeros_pass |= later.zeros_pass;
}

Problem::Problem(InputSet set, DataType type, ReduceOp op, int ranks, int rank)
    : set_(set),
      type_(type),
      op_(op),
      element_bytes_(size_of(type)),
      input_(kPeriod * element_bytes_) {
  assert(rank >= 0 && rank < ranks);
  if (set == InputSet::kExact) {
    make_exact(ranks, rank);
  } else {
    assert(depends_on_order(type, op));
    make_order_sensitive(ranks, rank);
  }
}

void Problem::store(std::vector<std::byte>& pattern, size_t index, uint64_t bits) const {
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(&pattern[index * element_bytes_], &bits, element_bytes_);
}

void Problem::make_exact(int ranks, int rank) {
  expected_.resize(kPeriod * element_bytes_);
  const ExactInputs inputs(type_, op_, ranks);
  for (size_t index = 0; index < kPeriod; ++index) {
    store(input_, index, inputs.value(rank, index));
    store(expected_, index, inputs.result(index));
  }
}

void Problem::make_order_sensitive(int ranks, int rank) {
  const OrderSensitiveInputs inputs(type_, op_, ranks);
  for (size_t index = 0; index < kPeriod; ++index) {
    store(input_, index, bits_of(type_, inputs.value(rank, index)));
    const auto [reference, bound] = inputs.result(index);
    reference_.push_back(reference);
    bound_.push_back(bound);
  }
}

void Problem::write_input(size_t shift, void* input, size_t count) const {
  for_each_piece(shift, count, [&](size_t done, size_t index, size_t piece) {
    std::memcpy(static_cast<std::byte*>(input) + done * element_bytes_,
                &input_[index * element_bytes_], piece * element_bytes_);
  });
}

template <DataType kType>
Verdict Problem::check_values(size_t shift, const void* output, size_t count) const {
  Verdict verdict;
  for_each_piece(shift, count, [&](size_t done, size_t index, size_t piece) {
    const std::byte* results = static_cast<const std::byte*>(output) + done * element_bytes_;
    for (size_t i = 0; i < piece; ++i) {
      const double got = load<kType>(results + i * element_bytes_);
      const double error = error_of(got, reference_[index + i]);
      verdict.max_error = std::max(verdict.max_error, error);
      if (error > bound_[index + i]) note(verdict, done + i, got, reference_[index + i]);
    }
  });
  return verdict;
}

Verdict Problem::check(size_t shift, const void* output, size_t count) const {
  if (set_ == InputSet::kOrderSensitive) {
    switch (type_) {
      case DataType::kFloat16: return check_values<DataType::kFloat16>(shift, output, count);
      case DataType::kBfloat16: return check_values<DataType::kBfloat16>(shift, output, count);
      case DataType::kFloat32: return check_values<DataType::kFloat32>(shift, output, count);
      default: return check_values<DataType::kFloat64>(shift, output, count);
    }
  }
  Verdict verdict;
  for_each_piece(shift, count, [&](size_t done, size_t index, size_t piece) {
    const std::byte* results = static_cast<const std::byte*>(output) + done * element_bytes_;
    const std::byte* expected = &expected_[index * element_bytes_];
    if (std::memcmp(results, expected, piece * element_bytes_) == 0) return;
    for (size_t at = 0; at < piece * element_bytes_; at += element_bytes_) {
      if (std::memcmp(results + at, expected + at, element_bytes_) == 0) continue;
      const double got = load(type_, results + at), wanted = load(type_, expected + at);
      verdict.max_error = std::max(verdict.max_error, error_of(got, wanted));
      note(verdict, done + at / element_bytes_, got, wanted);
    }
  });
  return verdict;
}

uint64_t hash_of(const void* data, size_t bytes) {
  // Each step is a bijection of the lane for a given word, and of the word for a given lane.
  const auto step = [](uint64_t lane, uint64_t word) {
    return std::rotl(lane ^ word, 29) * 0x9E3779B97F4A7C15;
  };
  const std::byte* at = static_cast<const std::byte*>(data);
  uint64_t lanes[4] = {1, 2, 3, 4};
  const auto word_at = [](const std::byte* from) { return load_as<uint64_t>(from); };
  size_t left = bytes;
  for (; left >= sizeof(lanes); left -= sizeof(lanes), at += sizeof(lanes))
    for (size_t lane = 0; lane < 4; ++lane) lanes[lane] = step(lanes[lane], word_at(at + 8 * lane));
  uint64_t hash = step(0, bytes);
  for (; left > 0;) {
    const size_t piece = std::min(left, sizeof(uint64_t));
    uint64_t word = 0;
    std::memcpy(&word, at, piece);
    hash = step(hash, word);
    at += piece;
    left -= piece;
  }
  for (uint64_t lane : lanes) hash = step(hash, lane);
  return hash ^ (hash >> 32);
}

}  // namespace unisono
