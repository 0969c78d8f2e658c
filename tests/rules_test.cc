// SPDX-License-Identifier: Apache-2.0
// What the rules pick, as literal tables.
#include "select/rules.h"

#include <gtest/gtest.h>

#include "algorithms/registry.h"

namespace unisono {
namespace {

constexpr uint64_t kSmall = 64 << 10, kLarge = kSmall + 1;

struct Pick {
  uint64_t bytes;
  int ranks, hosts;
  double max_error;
  const char* choice;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
};

std::string picked(std::string_view rules, const Pick& pick) {
  Shape shape{.size = pick.ranks};
  for (int rank = 0; rank < pick.ranks; ++rank)
    shape.groups.push_back(rank * pick.hosts / pick.ranks);
  Quantisations known;
  const auto match =
      Rules::parse(rules, algorithms())
          ->select(
              {pick.bytes, static_cast<uint64_t>(pick.ranks), static_cast<uint64_t>(pick.hosts)},
              shape, {.type = pick.type, .op = pick.op, .max_error = pick.max_error}, known);
  return match.ok() ? to_string(match->choice, algorithms())
                    : std::string(match.status().message());
}

void expect_picks(std::string_view rules, std::span<const Pick> picks) {
  for (const Pick& pick : picks)
    EXPECT_EQ(picked(rules, pick), pick.choice)
        << pick.bytes << " bytes, " << pick.ranks << " ranks, " << pick.hosts
        << " hosts, max_error " << pick.max_error << " " << name_of(pick.type) << " "
        << name_of(pick.op);
}

TEST(Rules, DefaultsPickACodecBetweenHostsAsFarAsTheCallAllows) {
  constexpr const char* kInt8 = "sharded_ps codec=int8 links=between_hosts";
  constexpr const char* kOnebit = "sharded_ps codec=onebit links=between_hosts";
  constexpr Pick kPicks[] = {
      {kSmall, 4, 1, 0, "one_shot"},
      {kLarge, 4, 1, 0, "sharded_ps"},
      {kLarge, 4, 2, 0, "sharded_ps"},
      // On one host, and where it is short, a vector goes as it is, whatever is allowed.
      {kSmall, 4, 1, 10, "one_shot"},
      {kSmall, 4, 2, 10, "one_shot"},
      {kLarge, 4, 1, 10, "sharded_ps"},
      {1 << 30, 8, 1, 10, "sharded_ps"},
      {kLarge, 4, 2, 0.005, "sharded_ps"},
      {kLarge, 4, 2, 0.01, kInt8},
      {kLarge, 8, 8, 0.01, kInt8},
      {kLarge, 4, 2, 2, kInt8},
      {kLarge, 4, 2, 3, kOnebit},
      {kLarge, 4, 2, 10, kInt8, DataType::kFloat32, ReduceOp::kMax},
      {kLarge, 4, 2, 10, "sharded_ps", DataType::kFloat32, ReduceOp::kProd},
      {kLarge, 4, 2, 10, "sharded_ps", DataType::kFloat64},
      {kLarge, 4, 2, 10, "sharded_ps", DataType::kInt32},
  };
  expect_picks(Rules::default_text(), kPicks);
}

TEST(Rules, ACodecBetweenHostsNeedsNoLeaveWhereThereIsOneHost) {
  constexpr Pick kPicks[] = {
      {kLarge, 4, 1, 0, "ring codec=fp16 links=between_hosts"},
      {kLarge, 4, 1, 0, "ring codec=fp16 links=between_hosts", DataType::kInt32},
      {kLarge, 4, 2, 0, "pairwise"},
      {kLarge, 4, 2, 0.01, "ring codec=fp16 links=between_hosts"},
  };
  expect_picks("*: ring codec=fp16 links=between_hosts; *: pairwise", kPicks);
}

}  // namespace
}  // namespace unisono
