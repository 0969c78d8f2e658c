// SPDX-License-Identifier: Apache-2.0
// Vectors from NumPy files: what is read, and one clear line for what cannot be.
#include "tools/float_inputs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>

namespace unisono {
namespace {

std::string npy(const std::string& header, const std::vector<float>& values) {
  std::string bytes = std::string("\x93NUMPY\x01\x00", 8);
  const auto length = static_cast<uint16_t>(header.size());
  bytes.append(reinterpret_cast<const char*>(&length), 2);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return bytes;
}

std::string header_of(const std::string& shape, const std::string& descr = "<f4") {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
}

Result<FloatInputs> load(const std::string& bytes) {
  const std::string path = testing::TempDir() + "/float_inputs_test.npy";
  std::ofstream(path, std::ios::binary) << bytes;
  auto loaded = FloatInputs::load(path);
  std::remove(path.c_str());
  return loaded;
}

std::vector<float> written(const FloatInputs& inputs, int rank, size_t shift, size_t first,
                           size_t count) {
  std::vector<float> values(count);
  inputs.write(rank, shift, first, count, values.data());
  return values;
}

TEST(FloatInputs, ARowForEachRankRepeats) {
  const auto inputs = load(npy(header_of("(2, 3)"), {1, 2, 3, 4, 5, 6}));
  ASSERT_TRUE(inputs.ok()) << inputs.status().message();
  EXPECT_EQ(inputs->rows(), 2u);
  EXPECT_EQ(written(*inputs, 0, 0, 0, 4), (std::vector<float>{1, 2, 3, 1}));
  EXPECT_EQ(written(*inputs, 1, 1, 1, 5), (std::vector<float>{6, 4, 5, 6, 4}));
}

TEST(FloatInputs, OneVectorServesAllRanks) {
  const auto inputs = load(npy(header_of("(3,)"), {1, 2, 3}));
  ASSERT_TRUE(inputs.ok()) << inputs.status().message();
  EXPECT_EQ(inputs->rows(), 1u);
  EXPECT_EQ(written(*inputs, 5, 0, 1, 2), (std::vector<float>{2, 3}));
}

TEST(FloatInputs, MadeOnesDifferBetweenRanks) {
  const FloatInputs inputs = FloatInputs::made(2);
  EXPECT_EQ(inputs.rows(), 2u);
  EXPECT_NE(written(inputs, 0, 0, 0, 100), written(inputs, 1, 0, 0, 100));
  EXPECT_EQ(written(inputs, 0, 7, 0, 100), written(FloatInputs::made(2), 0, 0, 7, 100));
}

TEST(FloatInputs, AMalformedFileIsOneClearLine) {
  const std::string good = npy(header_of("(2, 3)"), {1, 2, 3, 4, 5, 6});
  const struct {
    std::string bytes, what;
  } cases[] = {
      {"", "it is no .npy file"},
      {"PK\x03\x04 something else", "it is no .npy file"},
      {good.substr(0, 30), "its header is cut off"},
      {good.substr(0, good.size() - 4), "its data has 20 bytes, expected 24 for the shape (2, 3)"},
      {good + "xxxx", "its data has 28 bytes, expected 24 for the shape (2, 3)"},
      {npy(header_of("(2, 3)", "<f8"), {}), "it holds '<f8', expected '<f4' (float32)"},
      {npy(header_of("(1, 2, 3)"), {}), "expected the shape (ranks, n) or (n,)"},
      {npy(header_of("()"), {1}), "expected the shape (ranks, n) or (n,)"},
      {npy(header_of("(2, -3)"), {}), "expected the shape (ranks, n) or (n,)"},
      {npy(header_of("(0,)"), {}), "its shape is (1, 0), expected from 1 to 2^40 values"},
      {npy(header_of("(4294967296, 4294967296)"), {}),
       "its shape is (4294967296, 4294967296), expected from 1 to 2^40 values"},
      {npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", {1}),
       "it is in Fortran order, expected C order"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (2,), }", {1}),
       "its header has shape twice"},
      {npy("{'descr': '<f4', \"descr\": '<f8', 'fortran_order': False, 'shape': (1,), }", {1}),
       "its header has descr twice"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'fortran_order' : True}", {1}),
       "its header has fortran_order twice"},
      {npy(header_of("(1,)"), {std::numeric_limits<float>::infinity()}),
       "value 0 is inf, expected finite numbers"},
  };
  for (const auto& [bytes, what] : cases) {
    const auto loaded = load(bytes);
    ASSERT_FALSE(loaded.ok()) << what;
    EXPECT_EQ(loaded.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(loaded.status().message(), testing::TempDir() + "/float_inputs_test.npy: " + what);
  }
  EXPECT_NE(FloatInputs::load("/nonexistent/x.npy").status().message().find("No such file"),
            std::string::npos);
}

// Any cut or flipped byte ends in values or in an error.
TEST(FloatInputs, SurvivesAnyDamage) {
  const std::string good = npy(header_of("(2, 3)"), {1, 2, 3, 4, 5, 6});
  for (size_t at = 0; at < good.size(); ++at) {
    EXPECT_FALSE(load(good.substr(0, at)).ok()) << at;
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = good;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      if (const auto loaded = load(damaged); loaded.ok()) {
        EXPECT_GT(loaded->rows(), 0u);
      }
    }
  }
}

}  // namespace
}  // namespace unisono
