// SPDX-License-Identifier: Apache-2.0
// The values of the two input sets of check.h: what rank r holds at a place of the pattern, and the
// result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace unisono {

// Bits in, bits out. Pure.
class ExactInputs {
 public:
  ExactInputs(DataType type, ReduceOp op, int ranks) : type_(type), op_(op), ranks_(ranks) {}
  uint64_t value(int rank, size_t index) const;
  uint64_t result(size_t index) const;

 private:
  uint64_t integer(int rank, size_t index) const;
  uint64_t integer_result(size_t index) const;
  double real(int rank, size_t index) const;
  double real_result(size_t index) const;

  DataType type_;
  ReduceOp op_;
  int ranks_;
};

// Precondition: depends_on_order(type, op). Pure.
class OrderSensitiveInputs {
 public:
  OrderSensitiveInputs(DataType type, ReduceOp op, int ranks)
      : type_(type), op_(op), ranks_(ranks) {}
  double value(int rank, size_t index) const;  // exact in the type

  struct Expected {
    double reference;  // the float64 result
    double
        bound;  // of the error of any order of the reduction; 16-bit floats: rounded at every step
  };
  Expected result(size_t index) const;

 private:
  double term(int rank, size_t index) const;
  double factor(int rank, size_t index) const;

  DataType type_;
  ReduceOp op_;
  int ranks_;
};

}  // namespace unisono
