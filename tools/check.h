// SPDX-License-Identifier: Apache-2.0
// Inputs of which the result is known, and the check of a result against it.
//
// Two sets, after the idea of nccl-tests' verifiable.h. Their values repeat with a period of
// kPeriod elements, a prime, so that no mix-up of chunks or slices lines up with it and no vector
// is too long to check. A `shift` moves the pattern: a stale result of an earlier call with another
// shift is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace unisono {

enum class InputSet : uint8_t {
  // Every order of the reduction gives the same bits. A contribution that is missing changes every
  // element (float
  // prod: one in ⌈p/8⌉; min and max: one in p, a different one for each rank; avg of integers:
  // where the
  // division leaves it). So does a double one, except for min and max.
  kExact,
  // Floats of mixed magnitude: another order gives other bits, and every order is within a bound of
  // the
  // float64 reference. For bit identity between ranks, and for the error.
  kOrderSensitive,
};
std::string_view name_of(InputSet set);

// Whether the order of the reduction shows in the bits: sum, prod and avg of floats.
bool depends_on_order(DataType type, ReduceOp op);

struct Verdict {
  uint64_t wrong = 0;        // elements
  double max_error = 0;      // largest |result − reference|; infinite where a result is NaN
  uint64_t first_wrong = 0;  // its index, what it was and what it should have been; if wrong > 0
  double got = 0, expected = 0;
  // Of float32 through a codec only (CodecReference):
  double error_squares = 0, reference_squares = 0;  // sums over the elements
  double share_of_bound = 0;                        // largest error, where the bound around it is 1
  bool zeros_pass = false;  // somewhere a result of zeros would be in the bound

  void add(const Verdict& later);  // the sum over several checks
};

// What one rank puts in, and what every rank must get. A value, costly to make (p·kPeriod
// elements), cheap to use; the same for the same arguments. Thread-safe once made.
class Problem {
 public:
  static constexpr size_t kPeriod = 4099;

  // Precondition: set is kExact, or depends_on_order(type, op); 0 ≤ rank < ranks.
  Problem(InputSet set, DataType type, ReduceOp op, int ranks, int rank);

  // `input` gets `count` elements; as fast as memory takes them.
  void write_input(size_t shift, void* input, size_t count) const;
  // kExact: every bit counts. kOrderSensitive: elements outside the bound are wrong.
  Verdict check(size_t shift, const void* output, size_t count) const;

 private:
  void make_exact(int ranks, int rank);
  void make_order_sensitive(int ranks, int rank);
  void store(std::vector<std::byte>& pattern, size_t index, uint64_t bits) const;
  template <DataType kType>
  Verdict check_values(size_t shift, const void* output, size_t count) const;

  InputSet set_;
  DataType type_;
  ReduceOp op_;
  size_t element_bytes_;
  std::vector<std::byte> input_;     // one period each
  std::vector<std::byte> expected_;  // kExact
  std::vector<double> reference_, bound_;
};

// Equal for equal bytes; different for certain when one aligned word of 8 bytes differs.
uint64_t hash_of(const void* data, size_t bytes);

}  // namespace unisono
