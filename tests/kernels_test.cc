// SPDX-License-Identifier: Apache-2.0
// Reduction kernels: every type, operation and instruction set gives the reference's bits, in
// bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "base/types.h"
#include "guarded_buffer.h"
#include "instruction_sets.h"
#include "kernels/reduce.h"
#include "reference_reduce.h"

namespace unisono {
namespace {

constexpr uint32_t kSeed = 20240611;
constexpr uint8_t kUntouched = 0xa5;

// Half random bits (for floats: all exponents, NaN, infinities, subnormals), half small values, so
// that equal operands, zeros of both signs and finite products of nine are frequent.
std::vector<uint8_t> operand(DataType type, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(count * size_of(type));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  reference::with_type(type, [&]<class Element>(Element) {
    for (size_t i = 0; i < count; ++i) {
      using Value = decltype(Element::load(nullptr));
      const double small = (static_cast<int>(random() % 13) - 6) * (random() % 4 == 0 ? 1.0 : 0.37);
      if (random() % 2 == 0) continue;
      const double value = std::is_unsigned_v<Value> ? std::fabs(small) : small;
      Element::store(static_cast<Value>(value == 0 && random() % 2 ? -value : value),
                     bytes.data() + i * size_of(type));
    }
  });
  return bytes;
}

struct Operands {
  Operands(DataType type, size_t n, size_t count) : type(type), count(count) {
    for (size_t k = 0; k < n; ++k) {
      vectors.push_back(operand(type, count, kSeed + static_cast<uint32_t>(k)));
      pointers.push_back(vectors.back().data());
    }
  }
  std::vector<uint8_t> expect(ReduceOp op, uint32_t divisor) const {
    std::vector<uint8_t> result(count * size_of(type));
    reference::reduce(type, op, result.data(), pointers.data(), pointers.size(), count, divisor);
    reference::unify_nans(type, result.data(), count);
    return result;
  }
  DataType type;
  size_t count;
  std::vector<std::vector<uint8_t>> vectors;
  std::vector<const void*> pointers;
};

// The kernel between guard pages. `in_place`: which input is the output too; n: none.
class Trial {
 public:
  Trial(size_t n, size_t bytes) {
    for (size_t k = 0; k <= n; ++k)
      buffers_.push_back(std::make_unique<GuardedBuffer>(bytes + 256));
  }
  // `shift` < 256 bytes away from the guard page in front (at_end: behind) of each vector.
  void check(const Operands& in, ReduceOp op, size_t count, uint32_t divisor, size_t in_place,
             bool at_end, size_t shift, const std::vector<uint8_t>& expected) {
    const size_t n = in.vectors.size(), bytes = count * size_of(in.type);
    std::vector<const void*> inputs(n);
    std::vector<uint8_t*> places(n + 1);
    for (size_t k = 0; k <= n; ++k) {
      const size_t moved = (shift * (k + 1)) % 256;
      places[k] = at_end ? buffers_[k]->end() - bytes - moved : buffers_[k]->begin() + moved;
      if (k < n) std::memcpy(places[k], in.vectors[k].data(), bytes);
      if (k < n) inputs[k] = places[k];
    }
    uint8_t* out = places[in_place];
    if (in_place == n) std::memset(out, kUntouched, bytes);
    uint8_t* before = buffers_[in_place]->begin();
    std::memset(before, kUntouched, static_cast<size_t>(out - before));
    std::memset(out + bytes, kUntouched,
                static_cast<size_t>(buffers_[in_place]->end() - out) - bytes);

    reduce_kernel(in.type, op)(out, inputs.data(), n, count, divisor);

    reference::unify_nans(in.type, out, count);
    ASSERT_EQ(std::memcmp(out, expected.data(), bytes), 0)
        << name_of(in.type) << ' ' << name_of(op) << " n=" << n << " count=" << count
        << " divisor=" << divisor << " in_place=" << in_place << " seed=" << kSeed;
    const auto untouched = [](uint8_t byte) { return byte == kUntouched; };
    ASSERT_TRUE(std::all_of(before, out, untouched)) << "count=" << count;
    ASSERT_TRUE(std::all_of(out + bytes, buffers_[in_place]->end(), untouched))
        << "count=" << count;
    for (size_t k = 0; k < n; ++k)
      if (k != in_place) {
        ASSERT_EQ(std::memcmp(inputs[k], in.vectors[k].data(), bytes), 0);
      }
  }

 private:
  std::vector<std::unique_ptr<GuardedBuffer>> buffers_;
};

void check_all_counts(DataType type, ReduceOp op, size_t n) {
  const Operands in(type, n, 130);
  const uint32_t divisor = op == ReduceOp::kAvg ? static_cast<uint32_t>(n) : 1;
  const std::vector<uint8_t> expected = in.expect(op, divisor);
  Trial trial(n, 130 * size_of(type));
  for (size_t count = 0; count <= 130; ++count) {
    const size_t in_place = count % (n + 1);
    trial.check(in, op, count, divisor, n, true, 0, expected);
    trial.check(in, op, count, divisor, in_place, false, count % 7, expected);
    trial.check(in, op, count, divisor, in_place, count % 2, size_of(type), expected);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// A spread is the reduction, into all outputs, of which one may be an input.
void check_spread(DataType type, ReduceOp op, size_t n, size_t count, bool stream) {
  const Operands in(type, n, count);
  const uint32_t divisor = op == ReduceOp::kAvg ? static_cast<uint32_t>(n) : 1;
  const size_t bytes = count * size_of(type), shift = stream ? 0 : 3 * size_of(type);
  std::vector<uint8_t> expected(bytes);
  reduce_kernel(type, op)(expected.data(), in.pointers.data(), n, count, divisor);
  reference::unify_nans(type, expected.data(), count);

  std::vector<std::unique_ptr<GuardedBuffer>> buffers;
  std::vector<const void*> inputs = in.pointers;
  std::vector<void*> outs;
  for (size_t k = 0; k < n; ++k) {
    buffers.push_back(std::make_unique<GuardedBuffer>(bytes + shift + 64));
    std::memset(buffers[k]->begin(), kUntouched, buffers[k]->size());
    outs.push_back(buffers[k]->begin() + shift);
  }
  std::memcpy(outs[n - 1], inputs[n - 1], bytes);
  inputs[n - 1] = outs[n - 1];
  reduce_kernels(type, op).spread(outs.data(), inputs.data(), n, count, divisor, stream);
  for (size_t k = 0; k < n; ++k) {
    auto* const out = static_cast<uint8_t*>(outs[k]);
    reference::unify_nans(type, out, count);
    ASSERT_EQ(std::memcmp(out, expected.data(), bytes), 0)
        << name_of(type) << ' ' << name_of(op) << " n=" << n << " count=" << count << " output " << k;
    const auto untouched = [](uint8_t byte) { return byte == kUntouched; };
    ASSERT_TRUE(std::all_of<const uint8_t*>(buffers[k]->begin(), out, untouched)) << "count=" << count;
    ASSERT_TRUE(std::all_of<const uint8_t*>(out + bytes, buffers[k]->end(), untouched)) << "count=" << count;
  }
}

TEST(Spread, GivesAllOutputsWhatTheReductionGives) {
  on_every_instruction_set([] {
    for (DataType type : kDataTypes)
      for (ReduceOp op : kReduceOps)
        for (size_t n : {2, 3, 9})
          for (size_t count : {0, 1, 31, 64, 129, 300})
            for (bool stream : {false, true}) {
              check_spread(type, op, n, count, stream);
              if (HasFatalFailure()) return;
            }
  });
}

TEST(Reduce, EveryTypeAndOpAtEveryCount) {
  on_every_instruction_set([] {
    for (DataType type : kDataTypes)
      for (ReduceOp op : kReduceOps)
        for (size_t n : {1, 2, 3, 5, 8, 9}) {
          check_all_counts(type, op, n);
          if (HasFatalFailure()) return;
        }
  });
}

TEST(Reduce, LongVectorsInPlaceOfEachInput) {
  constexpr size_t kCount = 4099;
  for (DataType type : kDataTypes)
    for (ReduceOp op : kReduceOps)
      for (size_t n : {1, 2, 3, 5, 8, 9}) {
        const Operands in(type, n, kCount);
        const uint32_t divisor = op == ReduceOp::kAvg ? static_cast<uint32_t>(n) : 1;
        const std::vector<uint8_t> expected = in.expect(op, divisor);
        on_every_instruction_set([&] {
          Trial trial(n, kCount * size_of(type));
          for (size_t in_place = 0; in_place <= n; ++in_place)
            trial.check(in, op, kCount, divisor, in_place, in_place % 2, 3 * in_place, expected);
        });
        if (HasFailure()) return;
      }
}

TEST(Reduce, AverageOfOneVectorByAnyDivisor) {
  for (DataType type : kDataTypes) {
    const Operands in(type, 1, 2048);
    std::vector<uint32_t> divisors = {1u << 16, (1u << 24) + 1, 2147483647, 2147483648, 4294967295};
    for (uint32_t divisor = 1; divisor <= 260; ++divisor) divisors.push_back(divisor);
    for (uint32_t divisor : divisors) {
      const std::vector<uint8_t> expected = in.expect(ReduceOp::kAvg, divisor);
      on_every_instruction_set([&] {
        Trial(1, in.count * size_of(type))
            .check(in, ReduceOp::kAvg, in.count, divisor, divisor % 2, true, 0, expected);
      });
      if (HasFailure()) return;
    }
  }
}

// Sums of 16-bit floats that any rounding in between would change.
TEST(Reduce, HalvesAreRoundedOnceWhateverTheNumberOfInputs) {
  constexpr size_t n = 40;
  for (DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    // 1 + 39 quarter-places: each addition alone would be rounded away.
    const uint16_t one = type == DataType::kFloat16 ? 0x3c00 : 0x3f80;
    const uint16_t quarter_place = type == DataType::kFloat16 ? 0x0c00 : 0x3b00;
    const uint16_t expected = one + 10;  // 39/4 = 9.75 places
    std::vector<uint16_t> values(n, quarter_place);
    values[0] = one;
    std::vector<const void*> inputs(n);
    for (size_t k = 0; k < n; ++k) inputs[k] = &values[k];
    on_every_instruction_set([&] {
      uint16_t out = 0;
      reduce_kernel(type, ReduceOp::kSum)(&out, inputs.data(), n, 1, 1);
      EXPECT_EQ(out, expected) << name_of(type);
    });
  }
}

TEST(Reduce, MinAndMaxOfZerosAndNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float a[] = {0.0f, -0.0f, nan, -nan, 1.0f, -1.0f, nan};
  const float b[] = {-0.0f, 0.0f, 1.0f, -INFINITY, -nan, nan, nan};
  const void* inputs[] = {a, b};
  on_every_instruction_set([&] {
    float low[7], high[7];
    reduce_kernel(DataType::kFloat32, ReduceOp::kMin)(low, inputs, 2, 7, 1);
    reduce_kernel(DataType::kFloat32, ReduceOp::kMax)(high, inputs, 2, 7, 1);
    for (int i : {0, 1}) EXPECT_TRUE(low[i] == 0 && std::signbit(low[i])) << i;
    for (int i : {0, 1}) EXPECT_TRUE(high[i] == 0 && !std::signbit(high[i])) << i;
    for (int i = 2; i < 7; ++i) EXPECT_TRUE(std::isnan(low[i]) && std::isnan(high[i])) << i;
  });
}

TEST(Reduce, RunsOnMoreThanTheBaseline) {
  EXPECT_GE(instruction_sets().size(), 2u)
      << "the comparison between instruction sets compares nothing";
}

}  // namespace
}  // namespace unisono
