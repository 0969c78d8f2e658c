// SPDX-License-Identifier: Apache-2.0
// Conversions of 16-bit floats: all values, all roundings next to them, every instruction set.
#include "kernels/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "guarded_buffer.h"
#include "instruction_sets.h"
#include "reference_reduce.h"

namespace unisono {
namespace {

uint16_t reference_half(DataType type, float value) {
  return type == DataType::kFloat16 ? reference::Float16::from_float(value)
                                    : reference::Bfloat16::from_float(value);
}
float reference_float(DataType type, uint16_t bits) {
  return type == DataType::kFloat16 ? reference::Float16::to_float(bits)
                                    : reference::Bfloat16::to_float(bits);
}

class Convert : public testing::TestWithParam<DataType> {};

TEST_P(Convert, EveryHalfIsExactAsFloat32) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  on_every_instruction_set([&] {
    std::vector<float> floats(halves.size());
    to_float32_kernel(GetParam())(floats.data(), halves.data(), halves.size());
    for (size_t i = 0; i < halves.size(); ++i) {
      const float expected = reference_float(GetParam(), halves[i]);
      if (std::isnan(expected))
        ASSERT_TRUE(std::isnan(floats[i])) << i;
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(floats[i]), std::bit_cast<uint32_t>(expected)) << i;
    }
  });
}

// Each half, the middle between it and the next, and the floats on both sides of these.
TEST_P(Convert, Float32IsRoundedToNearestEven) {
  std::vector<float> floats;
  for (uint32_t i = 0; i < 65536; ++i) {
    const float value = reference_float(GetParam(), static_cast<uint16_t>(i));
    const uint32_t half_place = GetParam() == DataType::kFloat16 ? 1u << 12 : 1u << 15;
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const float next = reference_float(GetParam(), static_cast<uint16_t>(i + 1));
    const uint32_t middle = std::bit_cast<uint32_t>((value + next) / 2);
    for (uint32_t near : {bits, bits + half_place, middle})
      for (uint32_t step : {0u, 1u, ~0u}) floats.push_back(std::bit_cast<float>(near + step));
  }
  std::vector<uint16_t> expected(floats.size());
  for (size_t i = 0; i < floats.size(); ++i) expected[i] = reference_half(GetParam(), floats[i]);
  std::vector<uint16_t> first;
  on_every_instruction_set([&] {
    std::vector<uint16_t> halves(floats.size());
    from_float32_kernel(GetParam())(halves.data(), floats.data(), floats.size());
    for (size_t i = 0; i < floats.size(); ++i) {
      if (std::isnan(floats[i]))
        ASSERT_TRUE(std::isnan(reference_float(GetParam(), halves[i])));
      else
        ASSERT_EQ(halves[i], expected[i]) << std::hexfloat << floats[i];
    }
    if (first.empty()) first = halves;
    ASSERT_EQ(halves, first) << "NaN payloads differ between instruction sets";
  });
}

TEST_P(Convert, StaysInBounds) {
  constexpr size_t kMost = 100;
  GuardedBuffer floats(kMost * 4), halves(kMost * 2);
  on_every_instruction_set([&] {
    for (size_t count = 0; count <= kMost; ++count)
      for (bool at_end : {false, true}) {
        uint8_t* f = at_end ? floats.end() - count * 4 : floats.begin();
        uint8_t* h = at_end ? halves.end() - count * 2 : halves.begin();
        std::memset(halves.begin(), 0x3c, halves.size());
        std::memset(floats.begin(), 0xa5, floats.size());
        to_float32_kernel(GetParam())(f, h, count);
        std::memset(halves.begin(), 0xa5, halves.size());
        from_float32_kernel(GetParam())(h, f, count);
        size_t changed_floats = 0, changed_halves = 0;
        for (const uint8_t* p = floats.begin(); p < floats.end(); ++p)
          changed_floats += *p != 0xa5 && (p < f || p >= f + count * 4);
        for (const uint8_t* p = halves.begin(); p < halves.end(); ++p)
          changed_halves += *p != (p < h || p >= h + count * 2 ? 0xa5 : 0x3c);
        ASSERT_EQ(changed_floats + changed_halves, 0u) << count;
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Halves, Convert, testing::Values(DataType::kFloat16, DataType::kBfloat16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace unisono
