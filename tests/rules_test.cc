// SPDX-License-Identifier: Apache-2.0
// What the rules pick, as literal tables; and what they say of text that is none.
#include "select/rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "algorithms/registry.h"
#include "base/text.h"

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
              {pick.bytes, static_cast<uint64_t>(pick.ranks), static_cast<uint64_t>(pick.hosts),
               pick.hosts == 1 ? 1u : 0u},
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
      {kSmall, 4, 2, 10, "sharded_ps"},
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

std::string pick(const Rules& rules, RuleFacts facts, std::vector<int> servers = {}) {
  Shape shape{.size = static_cast<int>(facts.ranks), .servers = std::move(servers)};
  for (uint64_t rank = 0; rank < facts.ranks; ++rank)
    shape.groups.push_back(static_cast<int>(rank * facts.hosts / facts.ranks));
  Quantisations known;
  const auto match = rules.select(facts, shape, {}, known);
  return match.ok() ? to_string(match->choice, algorithms())
                    : std::string(match.status().message());
}

// "one_shot 65536 sharded_ps": choices in the order of sizes, with the last size of each but one.
std::string ranges(uint64_t ranks, uint64_t hosts, bool shared_memory, std::vector<int> servers = {}) {
  const auto rules = Rules::parse(Rules::default_text(), algorithms());
  if (!rules.ok()) return std::string(rules.status().message());
  const auto at = [&](uint64_t bytes) {
    return pick(*rules, {bytes, ranks, hosts, shared_memory ? 1u : 0u}, servers);
  };
  std::string text = at(0), last = text;
  for (uint64_t bytes = 1; bytes < uint64_t{1} << 36; bytes *= 2)
    for (const uint64_t size : {bytes, bytes + 1}) {
      const std::string now = at(size);
      if (now != last) text += fmt::format(" {} {}", size - 1, now);
      last = now;
    }
  return text;
}

TEST(Rules, DefaultsAsRanges) {
  const std::string shared = "one_shot 65536 sharded_ps";
  EXPECT_EQ(ranges(2, 1, true), shared);
  EXPECT_EQ(ranges(4, 1, true), shared);
  EXPECT_EQ(ranges(64, 1, true), shared);
  const std::string network = "recursive_doubling 32768 sharded_ps";
  EXPECT_EQ(ranges(2, 1, false), "one_shot 2048 " + network);
  EXPECT_EQ(ranges(3, 3, false), "one_shot 2048 " + network);
  EXPECT_EQ(ranges(4, 1, false), network);
  EXPECT_EQ(ranges(4, 2, false), network);
  EXPECT_EQ(ranges(64, 64, false), network);
  EXPECT_EQ(ranges(4, 4, false, {3}), "sharded_ps");  // no rank but the server can hold the sum
}

TEST(Rules, TheFirstThatHoldsAndServesWins) {
  const auto rules = Rules::parse(
      "bytes<8 ranks>2: ring; hosts>=2 shared_memory=0: pairwise depth=2\n bytes=1K: one_shot; *: "
      "naive_ps",
      algorithms());
  ASSERT_TRUE(rules.ok()) << rules.status().message();
  EXPECT_EQ(pick(*rules, {7, 3, 2, 0}), "ring");
  EXPECT_EQ(pick(*rules, {7, 2, 2, 0}), "pairwise depth=2");
  EXPECT_EQ(pick(*rules, {1024, 4, 2, 1}), "one_shot");
  EXPECT_EQ(pick(*rules, {1025, 4, 1, 0}), "naive_ps");
  EXPECT_EQ(pick(*rules, {7, 3, 2, 0}, {0}), "naive_ps");  // ring and pairwise have no servers
}

TEST(Rules, TheDefaultsAreInTheirDocument) {
  std::ifstream file(std::string(UNISONO_SOURCE_ROOT) + "/docs/RULES.md");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::string lines = "\n\n";
  for (const std::string_view rule : split(Rules::default_text(), ';')) lines += fmt::format("    {}\n", rule);
  EXPECT_NE(text.find(lines + "\n"), std::string::npos) << lines;
}

TEST(Rules, TextThatIsNoneIsNamed) {
  const struct {
    const char* text;
    const char* message;
  } kCases[] = {
      {"", "rules: the last one must hold always, e.g. *: ring"},
      {"bytes<8K: ring", "rules: the last one must hold always, e.g. *: ring"},
      {"ring", "rule 'ring': expected CONDITIONS: CHOICE, e.g. bytes<=8K: one_shot"},
      {": ring", "rule ': ring': expected conditions, or * for always"},
      {"byte<8: ring",
       "rule condition 'byte<8': expected bytes, ranks, hosts or shared_memory, then <, <=, =, "
       ">= or >, then a number, e.g. bytes<=8K"},
      {"*: rng", "rule '*: rng': unknown algorithm rng: did you mean ring?"},
  };
  for (const auto& test : kCases)
    EXPECT_EQ(Rules::parse(test.text, algorithms()).status().message(), test.message);
}

}  // namespace
}  // namespace unisono
