// SPDX-License-Identifier: Apache-2.0
// Sweeps of sizes and rank counts on the command line.
#include "tools/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace unisono {
namespace {

using testing::ElementsAre;

TEST(Sweep, Bytes) {
  EXPECT_THAT(*parse_byte_sweep("0"), ElementsAre(0));
  EXPECT_THAT(*parse_byte_sweep("8:128:x4"), ElementsAre(8, 32, 128));
  EXPECT_THAT(*parse_byte_sweep("8:64:x4"), ElementsAre(8, 32, 64));
  EXPECT_THAT(*parse_byte_sweep("1K:4K"), ElementsAre(1024, 2048, 4096));
  EXPECT_THAT(*parse_byte_sweep("8:32:+8"), ElementsAre(8, 16, 24, 32));
  EXPECT_THAT(*parse_byte_sweep("0:20:+8"), ElementsAre(0, 8, 16, 20));
  EXPECT_THAT(*parse_byte_sweep("4K,8,8:16"), ElementsAre(4096, 8, 8, 16));
  EXPECT_THAT(*parse_byte_sweep("18446744073709551614:18446744073709551615:x2"),
              ElementsAre(UINT64_MAX - 1, UINT64_MAX));
}

TEST(Sweep, Ranks) {
  EXPECT_THAT(*parse_rank_sweep("1:4"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(*parse_rank_sweep("2,3,8:32:x2"), ElementsAre(2, 3, 8, 16, 32));
}

TEST(Sweep, RefusesWithWhatWasExpected) {
  const std::string size = "expected a size like 8 or 64K, a list 8,64K,1M, or FIRST:LAST:xFACTOR";
  const std::string order = "expected FIRST:LAST:xFACTOR with FIRST <= LAST";
  const std::string step =
      "expected FIRST:LAST:xFACTOR with FACTOR >= 2, or FIRST:LAST:+STEP with STEP >= 1";
  const std::pair<const char*, std::string> cases[] = {
      {"", size},
      {"eight", size},
      {"8,", size},
      {"8:", size},
      {"-8", size},
      {"8:64:x2:x2", size},
      {"8:4:x2", order},
      {"8:64:x1", step},
      {"8:64:2", step},
      {"8:64:", step},
      {"8:64:+0", step},
      {"8:64:x", step},
      {"0:64:x2", "expected FIRST:LAST:xFACTOR with FIRST >= 1"},
      {"8:64M:+1", "expected at most 10000 values"},
  };
  for (const auto& [text, expected] : cases) {
    const auto sweep = parse_byte_sweep(text);
    ASSERT_FALSE(sweep.ok()) << text;
    EXPECT_EQ(sweep.status().code(), StatusCode::kInvalidArgument);
    const std::string_view message = sweep.status().message();
    EXPECT_EQ(message.substr(message.find("expected")), expected) << text;
  }
  EXPECT_EQ(parse_rank_sweep("0:3").status().message(),
            "0:3: expected a rank count from 1 to 65536, a list 2,3,8, or FIRST:LAST");
}

}  // namespace
}  // namespace unisono
