// SPDX-License-Identifier: Apache-2.0
// The contract of codecs, for every row of the table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "codecs/codec.h"
#include "guarded_buffer.h"
#include "instruction_sets.h"
#include "kernels/reduce.h"

namespace unisono {
namespace {

using Vector = std::vector<float>;
using Bytes = std::vector<uint8_t>;

constexpr uint32_t kSeed = 20240612;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Input {
  const char* name;
  float (*element)(size_t i, std::mt19937& random);
};
float normal(std::mt19937& random) {
  return std::normal_distribution<float>()(random);
}
constexpr Input kInputs[] = {
    {"gradients", [](size_t, std::mt19937& random) { return normal(random); }},
    {"scaled by block",
     [](size_t i, std::mt19937& random) { return std::ldexp(normal(random), int(i / 256 % 12)); }},
    {"constant", [](size_t, std::mt19937&) { return -3.0f; }},
    {"of both signs", [](size_t i, std::mt19937&) { return i % 3 ? 0.75f : -0.375f; }},
    {"one large", [](size_t i, std::mt19937& random) { return i == 7 ? 1e4f : normal(random); }},
    {"small", [](size_t, std::mt19937& random) { return 1e-7f * normal(random); }},
    {"subnormal", [](size_t, std::mt19937& random) { return 1e-39f * normal(random); }},
    {"huge", [](size_t i, std::mt19937&) { return i % 300 ? 1e30f : 3.4028235e38f; }},
};

Vector make(const Input& input, size_t count) {
  std::mt19937 random(kSeed);
  Vector values(count);
  for (size_t i = 0; i < count; ++i) values[i] = input.element(i, random);
  return values;
}

Vector decode(const Codec& codec, const Bytes& wire, size_t count) {
  Vector values(count);
  codec.decode(wire.data(), count, 0, count, values.data());
  return values;
}

Bytes encode(const Codec& codec, const Vector& values, Vector* residual = nullptr) {
  Bytes wire(codec.wire_size(values.size()));
  codec.encode(values.data(), residual ? residual->data() : nullptr, values.size(), wire.data());
  return wire;
}

double largest_error(const Vector& values, const Vector& decoded) {
  double error = 0;
  for (size_t i = 0; i < values.size(); ++i)
    error = std::max(error, std::fabs(double(decoded[i]) - double(values[i])));
  return error;
}

// Equal as numbers, all NaN alike.
bool same(const Vector& a, const Vector& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::isnan(x) ? std::isnan(y) : std::memcmp(&x, &y, sizeof(x)) == 0;
  });
}

class Codecs : public testing::TestWithParam<const Codec*> {
 protected:
  const Codec& codec = *GetParam();
};
INSTANTIATE_TEST_SUITE_P(Table, Codecs, testing::ValuesIn(codec_table()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST_P(Codecs, ErrorBoundHoldsAndZerosBreakIt) {
  for (const Input& input : kInputs)
    for (size_t count : {1, 5, 255, 256, 257, 511, 512, 513, 4099}) {
      const Vector values = make(input, count);
      const double bound = codec.error_bound(values.data(), count);
      if (std::isinf(bound)) continue;
      SCOPED_TRACE(std::string(input.name) + " count=" + std::to_string(count));
      EXPECT_LE(largest_error(values, decode(codec, encode(codec, values), count)), bound);
      // A codec that sends only zeros; for what is below a format's range, that is all one can do.
      if (std::fabs(values[0]) > 1e-6f) {
        EXPECT_GT(largest_error(values, Vector(count)), bound);
      }
      float largest = 0;
      for (float value : values) largest = std::max(largest, std::fabs(value));
      if (largest > 1e-3f) {
        EXPECT_LE(bound, 1.001 * codec.relative_error * largest);
      }
    }
}

TEST_P(Codecs, SomeBoundIsFiniteForEveryInputButHugeOnes) {
  for (const Input& input : kInputs) {
    const Vector values = make(input, 1000);
    if (std::string_view(input.name) != "huge") {
      EXPECT_TRUE(std::isfinite(codec.error_bound(values.data(), 1000))) << input.name;
    }
  }
}

TEST_P(Codecs, WireSizeIsMonotone) {
  EXPECT_EQ(codec.wire_size(0), 0u);
  for (size_t count = 1; count <= 4096; ++count)
    ASSERT_GE(codec.wire_size(count), codec.wire_size(count - 1)) << count;
  EXPECT_LE(codec.wire_size(1 << 20), size_t{2} << 20) << "no gain over float32";
}

TEST_P(Codecs, SameBytesOnEveryInstructionSet) {
  for (const Input& input : kInputs)
    for (bool special : {false, true}) {
      Vector values = make(input, 3000), start = make(kInputs[0], 3000);
      if (special) {
        values[3] = kNaN;
        values[700] = kInfinity;
        values[1500] = -kInfinity;
        values[1501] = kInfinity;
        values[2999] = -kNaN;
        for (size_t i = 2100; i < 2700; ++i) values[i] = i % 2 ? 0.0f : -0.0f;
      }
      Bytes first_wire, first_residual_wire;
      Vector first_decoded, first_residual;
      on_every_instruction_set([&] {
        Vector residual = start;
        const Bytes wire = encode(codec, values), residual_wire = encode(codec, values, &residual);
        const Vector decoded = decode(codec, wire, values.size());
        if (first_wire.empty()) {
          first_wire = wire, first_residual_wire = residual_wire;
          first_decoded = decoded, first_residual = residual;
        }
        EXPECT_TRUE(wire == first_wire) << input.name;
        EXPECT_TRUE(residual_wire == first_residual_wire) << input.name;
        EXPECT_TRUE(same(decoded, first_decoded)) << input.name;
        EXPECT_TRUE(same(residual, first_residual)) << input.name;
      });
    }
}

TEST_P(Codecs, ZerosStayZeros) {
  for (float zero : {0.0f, -0.0f})
    for (float value : decode(codec, encode(codec, Vector(777, zero)), 777)) ASSERT_EQ(value, 0);
}

TEST_P(Codecs, NotFiniteStaysNotFiniteInItsBlockAndLeavesTheResidualAlone) {
  for (float special : {kNaN, -kNaN, kInfinity, -kInfinity}) {
    Vector values = make(kInputs[0], 3 * kCodecBlock);
    values[kCodecBlock + 100] = special;
    const Vector before = make(kInputs[2], values.size());
    Vector residual = before;
    const Vector decoded = decode(codec, encode(codec, values, &residual), values.size());
    EXPECT_FALSE(std::isfinite(decoded[kCodecBlock + 100]));
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(i / kCodecBlock == 1 || std::isfinite(decoded[i])) << i;
      const bool finite = std::isfinite(decoded[i]);
      ASSERT_EQ(residual[i], finite ? values[i] + before[i] - decoded[i] : before[i]) << i;
    }
  }
}

TEST_P(Codecs, ResidualIsWhatTheWireDoesNotSay) {
  for (const Input& input : kInputs) {
    const Vector values = make(input, 1100);
    Vector residual(values.size());
    for (int step = 0; step < 4; ++step) {
      const Vector before = residual;
      const Vector decoded = decode(codec, encode(codec, values, &residual), values.size());
      for (size_t i = 0; i < values.size(); ++i)
        if (std::isfinite(decoded[i])) {
          ASSERT_EQ(residual[i], (values[i] + before[i]) - decoded[i]) << input.name << ' ' << i;
        }
    }
  }
}

// Each count, with every vector against the guard page in front or behind, at odd addresses too.
TEST_P(Codecs, StaysInBounds) {
  constexpr size_t kMost = 1100;
  const Vector all = make(kInputs[0], kMost);
  GuardedBuffer values(kMost * 4), residual(kMost * 4), wire(codec.wire_size(kMost)),
      out(kMost * 4);
  GuardedBuffer* const buffers[] = {&values, &residual, &wire, &out};
  on_every_instruction_set([&] {
    for (size_t count = 0; count <= kMost; ++count) {
      const bool at_end = count % 2;
      const size_t sizes[] = {count * 4, count * 4, codec.wire_size(count), count * 4};
      uint8_t* at[4];
      for (int b = 0; b < 4; ++b) {
        std::memset(buffers[b]->begin(), 0xa5, buffers[b]->size());
        at[b] = at_end ? buffers[b]->end() - sizes[b] : buffers[b]->begin();
        if (!at_end && count % 4 == 2 && count + 1 < kMost) at[b] += 1;
      }
      std::memcpy(at[0], all.data(), count * 4);
      std::memset(at[1], 0, count * 4);
      codec.encode(at[0], count % 3 ? at[1] : nullptr, count, at[2]);
      codec.decode(at[2], count, 0, count, at[3]);
      for (int b = 0; b < 4; ++b) {
        const auto untouched = [](uint8_t byte) { return byte == 0xa5; };
        ASSERT_TRUE(std::all_of(buffers[b]->begin(), at[b], untouched)) << count;
        ASSERT_TRUE(std::all_of(at[b] + sizes[b], buffers[b]->end(), untouched)) << count;
      }
      const Vector prefix(all.begin(), all.begin() + long(count));
      const Bytes expected = encode(codec, prefix);
      ASSERT_EQ(std::memcmp(at[2], expected.data(), expected.size()), 0)
          << "what lies behind took part, or the address did: count=" << count;
      if (count <= kCodecBlock) continue;
      Vector tail(count - kCodecBlock);
      codec.decode(at[2], count, kCodecBlock, tail.size(), tail.data());
      ASSERT_EQ(std::memcmp(tail.data(), at[3] + kCodecBlock * 4, tail.size() * 4), 0) << count;
    }
  });
}

TEST_P(Codecs, PaddingTakesNoPart) {
  for (size_t count = 1; count <= 520; ++count)
    for (float value : {5.0f, -5.0f}) {
      const Vector decoded = decode(codec, encode(codec, Vector(count, value)), count);
      for (float each : decoded) ASSERT_NEAR(each, value, 1e-4) << count;
    }
}

// Mixed operands, more than one pass holds, in place of each plain one.
TEST_P(Codecs, FoldEqualsReductionOfDecodedOperands) {
  constexpr size_t kCount = 1100;
  for (ReduceOp op : codec.ops)
    for (size_t n : {1, 2, 4, 8, 9, 17}) {
      std::vector<Vector> plain;
      std::vector<Bytes> wires(n);
      std::vector<const void*> inputs;
      for (size_t k = 0; k < n; ++k) {
        std::mt19937 random(kSeed + uint32_t(k));
        plain.emplace_back(kCount);
        for (float& value : plain[k]) value = normal(random);
        if (k % 3 != 1) {
          wires[k] = encode(codec, plain[k]);
          plain[k] = decode(codec, wires[k], kCount);
        }
      }
      for (const Vector& vector : plain) inputs.push_back(vector.data());
      const uint32_t divisor = op == ReduceOp::kAvg ? uint32_t(n) : 1;
      Vector expected(kCount);
      reduce_kernel(DataType::kFloat32, op)(expected.data(), inputs.data(), n, kCount, divisor);
      for (size_t in_place = 1; in_place < n + 3; in_place += 3) {
        std::vector<Vector> copies = plain;
        Vector apart(kCount);
        Vector& out = in_place < n ? copies[in_place] : apart;
        std::vector<CodecOperand> operands;
        for (size_t k = 0; k < n; ++k)
          operands.push_back(wires[k].empty() ? CodecOperand{copies[k].data(), false}
                                              : CodecOperand{wires[k].data(), true});
        fold_encoded(codec, op, out.data(), operands, kCount, divisor);
        ASSERT_EQ(out, expected) << name_of(op) << " n=" << n << " in_place=" << in_place;
      }
    }
}

TEST_P(Codecs, ServesItsOpsOnFloat32Only) {
  for (DataType type : kDataTypes)
    for (ReduceOp op : kReduceOps) {
      const bool served =
          type == DataType::kFloat32 && std::ranges::find(codec.ops, op) != codec.ops.end();
      EXPECT_EQ(supports(&codec, type, op).ok(), served) << name_of(type) << name_of(op);
    }
  EXPECT_EQ(*find_codec(codec.name), &codec);
}

TEST(CodecTable, NamesAndReasons) {
  EXPECT_EQ(*find_codec("none"), nullptr);
  EXPECT_EQ(find_codec("fp61").status().message(), "unknown codec fp61: did you mean fp16?");
  EXPECT_EQ(find_codec("qqqqqqqqqq").status().message(),
            "unknown codec qqqqqqqqqq: expected one of none, fp16, bf16, int8, onebit");
  const Codec* onebit = *find_codec("onebit");
  EXPECT_EQ(supports(onebit, DataType::kInt32, ReduceOp::kSum).message(),
            "codec onebit serves f32, not i32");
  EXPECT_EQ(supports(onebit, DataType::kFloat32, ReduceOp::kMin).message(),
            "codec onebit serves sum, avg, not min");
  EXPECT_TRUE(supports(nullptr, DataType::kInt32, ReduceOp::kMin).ok());
}

TEST(CodecWire, Onebit) {
  const Bytes wire = encode(**find_codec("onebit"), {1, -1, 3, -3, 0, -0.0f});
  const float means[] = {-2, 1};
  ASSERT_EQ(wire.size(), 9u);
  EXPECT_EQ(std::memcmp(wire.data(), means, 8), 0);
  EXPECT_EQ(wire[8], 0b110101);
}

TEST(CodecWire, Int8RoundsTiesToEven) {
  const Bytes wire = encode(**find_codec("int8"), {127, -63.5f, 0.5f, 1.5f, -2.5f});
  const float scale = 1;
  EXPECT_EQ(std::memcmp(wire.data(), &scale, 4), 0);
  EXPECT_EQ(Bytes(wire.begin() + 4, wire.end()), (Bytes{127, uint8_t(-64), 0, 2, uint8_t(-2)}));
}

TEST(CodecWire, Int8OfTheLargestNumbersStaysFinite) {
  for (int step = 0; step < 300; ++step) {
    float largest = std::numeric_limits<float>::max();
    for (int i = 0; i < step; ++i) largest = std::nextafter(largest, 0.0f);
    const Codec& int8 = **find_codec("int8");
    const Vector values = {largest, -largest};
    const Vector decoded = decode(int8, encode(int8, values), 2);
    ASSERT_TRUE(std::isfinite(decoded[0]) && std::isfinite(decoded[1])) << step;
    ASSERT_LE(largest_error(values, decoded), int8.error_bound(values.data(), 2)) << step;
  }
}

}  // namespace
}  // namespace unisono
