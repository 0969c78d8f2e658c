// SPDX-License-Identifier: Apache-2.0
// The inputs and the checker that the tools and the tests trust: right results pass in any order of
// the reduction, and every planted fault is found.
#include "tools/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "tools/inputs.h"
#include "tools/scalar.h"

namespace unisono {
namespace {

constexpr size_t kCount = 257;

template <typename Test>
void for_each_type_and_op(Test test) {
  for (DataType type : kDataTypes) {
    for (ReduceOp op : kReduceOps) {
      SCOPED_TRACE(std::string(name_of(type)) + " " + std::string(name_of(op)));
      test(type, op);
    }
  }
}

template <typename T>
uint64_t fold_integers(ReduceOp op, uint64_t a, uint64_t b) {
  const T x = static_cast<T>(a), y = static_cast<T>(b);
  switch (op) {
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMin:
      return static_cast<uint64_t>(std::min(x, y));
    case ReduceOp::kMax:
      return static_cast<uint64_t>(std::max(x, y));
    default:
      return a + b;
  }
}

// One step of a reduction, rounded to the type. Written apart from inputs.cc.
uint64_t fold(DataType type, ReduceOp op, uint64_t a, uint64_t b) {
  switch (type) {
    case DataType::kInt8:
      return fold_integers<int8_t>(op, a, b) & 0xFF;
    case DataType::kUint8:
      return fold_integers<uint8_t>(op, a, b) & 0xFF;
    case DataType::kInt32:
      return fold_integers<int32_t>(op, a, b) & 0xFFFFFFFF;
    case DataType::kUint32:
      return fold_integers<uint32_t>(op, a, b) & 0xFFFFFFFF;
    case DataType::kInt64:
      return fold_integers<int64_t>(op, a, b);
    case DataType::kUint64:
      return fold_integers<uint64_t>(op, a, b);
    default:
      break;
  }
  const double x = load(type, &a), y = load(type, &b);
  switch (op) {
    case ReduceOp::kProd:
      return bits_of(type, x * y);
    case ReduceOp::kMin:
      return bits_of(type, std::min(x, y));
    case ReduceOp::kMax:
      return bits_of(type, std::max(x, y));
    default:
      return bits_of(type, x + y);
  }
}

uint64_t divide(DataType type, uint64_t sum, int ranks) {
  switch (type) {
    case DataType::kInt8:
      return static_cast<uint8_t>(static_cast<int8_t>(sum) / ranks);
    case DataType::kInt32:
      return static_cast<uint32_t>(static_cast<int32_t>(sum) / ranks);
    case DataType::kInt64:
      return static_cast<uint64_t>(static_cast<int64_t>(sum) / ranks);
    case DataType::kFloat64:
      return bits_of(type, load(type, &sum) / ranks);
    default:
      break;
  }
  if (!is_float(type)) return sum / static_cast<uint64_t>(ranks);
  return bits_of(type, static_cast<float>(load(type, &sum)) / static_cast<float>(ranks));
}

using Value = std::function<uint64_t(int rank, size_t index)>;  // bits

// The result of reducing what `contributions` names, in that order, one rounding a step.
std::vector<std::byte> reduce(DataType type, ReduceOp op, int ranks, const Value& value,
                              const std::vector<int>& contributions, size_t shift = 0) {
  std::vector<std::byte> result(kCount * size_of(type));
  for (size_t i = 0; i < kCount; ++i) {
    const size_t index = (i + shift) % Problem::kPeriod;
    uint64_t bits = value(contributions[0], index);
    for (size_t next = 1; next < contributions.size(); ++next)
      bits = fold(type, op, bits, value(contributions[next], index));
    if (op == ReduceOp::kAvg) bits = divide(type, bits, ranks);
    std::memcpy(&result[i * size_of(type)], &bits, size_of(type));
  }
  return result;
}

std::vector<int> in_order(int ranks) {
  std::vector<int> order(ranks);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int> rotated(int ranks) {
  std::vector<int> order = in_order(ranks);
  std::ranges::rotate(order, order.begin() + ranks / 2);
  return order;
}

std::vector<int> reversed(int ranks) {
  std::vector<int> order = in_order(ranks);
  std::ranges::reverse(order);
  return order;
}

Value exact_values(DataType type, ReduceOp op, int ranks) {
  return [inputs = ExactInputs(type, op, ranks)](int rank, size_t index) {
    return inputs.value(rank, index);
  };
}

Value order_sensitive_values(DataType type, ReduceOp op, int ranks) {
  return [type, inputs = OrderSensitiveInputs(type, op, ranks)](int rank, size_t index) {
    return bits_of(type, inputs.value(rank, index));
  };
}

TEST(Check, ExactInputsAreRightInAnyOrder) {
  for_each_type_and_op([](DataType type, ReduceOp op) {
    for (int ranks : {1, 2, 3, 8, 33, 64, 300}) {
      const Problem problem(InputSet::kExact, type, op, ranks, 0);
      for (const auto& order : {in_order(ranks), reversed(ranks), rotated(ranks)}) {
        const auto result = reduce(type, op, ranks, exact_values(type, op, ranks), order, 4000);
        const Verdict verdict = problem.check(4000, result.data(), kCount);
        ASSERT_EQ(verdict.wrong, 0u) << ranks << " ranks: element " << verdict.first_wrong << " is "
                                     << verdict.got << ", not " << verdict.expected;
        ASSERT_EQ(verdict.max_error, 0);
      }
    }
  });
}

TEST(Check, OneMissingOrDoubleContributionIsFound) {
  for_each_type_and_op([](DataType type, ReduceOp op) {
    const bool picks = op == ReduceOp::kMin || op == ReduceOp::kMax;
    for (int ranks : {2, 3, 8, 33}) {
      const Problem problem(InputSet::kExact, type, op, ranks, 0);
      // Integers lose small changes when they are divided: there, some element must show it.
      const bool everywhere = ranks <= 8 && !picks && (op != ReduceOp::kAvg || is_float(type));
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<int> missing = in_order(ranks), twice = in_order(ranks);
        missing.erase(missing.begin() + rank);
        twice.push_back(rank);
        const Value values = exact_values(type, op, ranks);
        const auto wrong = [&](const std::vector<int>& contributions) {
          return problem.check(0, reduce(type, op, ranks, values, contributions).data(), kCount)
              .wrong;
        };
        const size_t least = everywhere ? kCount : picks ? kCount / ranks : 1;
        ASSERT_GE(wrong(missing), least) << "without rank " << rank << " of " << ranks;
        if (picks) continue;
        ASSERT_GE(wrong(twice), least) << "rank " << rank << " of " << ranks << " twice";
      }
    }
  });
}

TEST(Check, OneFlippedBitIsFound) {
  for_each_type_and_op([](DataType type, ReduceOp op) {
    const int ranks = 3;
    const Problem problem(InputSet::kExact, type, op, ranks, 1);
    auto result = reduce(type, op, ranks, exact_values(type, op, ranks), in_order(ranks));
    const uint64_t hash = hash_of(result.data(), result.size());
    for (size_t element : {size_t{0}, size_t{64}, kCount - 1}) {
      for (size_t bit = 0; bit < 8 * size_of(type); ++bit) {
        std::byte& target = result[element * size_of(type) + bit / 8];
        target ^= std::byte{1} << (bit % 8);
        const Verdict verdict = problem.check(0, result.data(), kCount);
        ASSERT_EQ(verdict.wrong, 1u) << "bit " << bit;
        ASSERT_EQ(verdict.first_wrong, element);
        ASSERT_NE(hash_of(result.data(), result.size()), hash) << "bit " << bit;
        target ^= std::byte{1} << (bit % 8);
      }
    }
    EXPECT_EQ(hash_of(result.data(), result.size()), hash);
  });
}

TEST(Check, StaleResultsAreFound) {
  for_each_type_and_op([](DataType type, ReduceOp op) {
    const int ranks = 3;
    const Problem problem(InputSet::kExact, type, op, ranks, 0);
    const auto result = reduce(type, op, ranks, exact_values(type, op, ranks), in_order(ranks), 11);
    EXPECT_EQ(problem.check(11, result.data(), kCount).wrong, 0u);
    EXPECT_GT(problem.check(12, result.data(), kCount).wrong, kCount / 2);
  });
}

// A vector longer than the pattern, so that it wraps: what is written is what is checked.
TEST(Check, InputsRepeatWithThePeriod) {
  const size_t count = 3 * Problem::kPeriod + 17;
  for (DataType type : kDataTypes) {
    const Problem problem(InputSet::kExact, type, ReduceOp::kSum, 1, 0);
    std::vector<std::byte> input(count * size_of(type));
    problem.write_input(4090, input.data(), count);
    EXPECT_EQ(problem.check(4090, input.data(), count).wrong, 0u);
    input[(count - 1) * size_of(type)] ^= std::byte{1};
    EXPECT_EQ(problem.check(4090, input.data(), count).first_wrong, count - 1);
  }
}

TEST(Check, OrderShowsInTheBitsAndStaysWithinTheBound) {
  for_each_type_and_op([](DataType type, ReduceOp op) {
    if (!depends_on_order(type, op)) return;
    for (int ranks : {3, 4, 8, 33, 64}) {
      const Problem problem(InputSet::kOrderSensitive, type, op, ranks, 0);
      const Value values = order_sensitive_values(type, op, ranks);
      const auto forward = reduce(type, op, ranks, values, in_order(ranks));
      ASSERT_NE(forward, reduce(type, op, ranks, values, reversed(ranks))) << ranks;
      ASSERT_NE(forward, reduce(type, op, ranks, values, rotated(ranks))) << ranks;
      for (const auto& order : {in_order(ranks), reversed(ranks), rotated(ranks)}) {
        const auto result = reduce(type, op, ranks, values, order);
        const Verdict verdict = problem.check(0, result.data(), kCount);
        ASSERT_EQ(verdict.wrong, 0u) << ranks << " ranks: element " << verdict.first_wrong << " is "
                                     << verdict.got << ", not " << verdict.expected;
        ASSERT_GT(verdict.max_error, 0);
      }
    }
  });
}

TEST(Check, TheBoundIsNotVacuous) {
  for_each_type_and_op([](DataType type, ReduceOp op) {
    if (!depends_on_order(type, op)) return;
    const int ranks = 4;
    const Problem problem(InputSet::kOrderSensitive, type, op, ranks, 0);
    const auto without_last =
        reduce(type, op, ranks, order_sensitive_values(type, op, ranks), {0, 1, 2});
    EXPECT_GT(problem.check(0, without_last.data(), kCount).wrong, kCount / 2);
    std::vector<std::byte> result(kCount * size_of(type), std::byte{0xFF});  // NaN
    const Verdict verdict = problem.check(0, result.data(), kCount);
    EXPECT_EQ(verdict.wrong, kCount);
    EXPECT_TRUE(std::isinf(verdict.max_error));
  });
}

// 16-bit sums that are kept in float32 and rounded once: their order shows where large values
// cancel.
TEST(Check, OrderShowsInWiderSumsToo) {
  for (DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    const int ranks = 4;
    const OrderSensitiveInputs inputs(type, ReduceOp::kSum, ranks);
    size_t differ = 0;
    for (size_t index = 0; index < kCount; ++index) {
      float up = 0, down = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        up += static_cast<float>(inputs.value(rank, index));
        down += static_cast<float>(inputs.value(ranks - 1 - rank, index));
      }
      differ += bits_of(type, up) != bits_of(type, down);
    }
    EXPECT_GT(differ, 0u) << name_of(type);
  }
}

TEST(Scalar, SixteenBitFloatsRoundTripAndRoundToNearestEven) {
  for (DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const double value = load(type, &bits);
      if (std::isnan(value)) continue;
      ASSERT_EQ(bits_of(type, value), bits) << name_of(type);
    }
  }
  const struct {
    DataType type;
    double value;
    uint64_t bits;
  } cases[] = {
      {DataType::kFloat16, 1 + 0x1p-11, 0x3C00},  // tie: to even, down
      {DataType::kFloat16, 1 + 0x3p-11, 0x3C02},  // tie: to even, up
      {DataType::kFloat16, 1 + 0x1p-11 + 0x1p-40, 0x3C01},
      {DataType::kFloat16, 65519.9, 0x7BFF},
      {DataType::kFloat16, 65520, 0x7C00},  // rounds up to infinity
      {DataType::kFloat16, 0x1p-25, 0},     // tie with zero
      {DataType::kFloat16, -0x1.8p-25, 0x8001},
      {DataType::kBfloat16, 1 + 0x1p-8, 0x3F80},
      {DataType::kBfloat16, -(1 + 0x3p-8), 0xBF82},
  };
  for (const auto& c : cases) EXPECT_EQ(bits_of(c.type, c.value), c.bits) << c.value;
}

}  // namespace
}  // namespace unisono
