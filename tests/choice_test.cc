// SPDX-License-Identifier: Apache-2.0
// The text form of a choice: what it accepts, what it says otherwise, and that it round-trips.
#include <gtest/gtest.h>

#include <random>

#include "algorithms/registry.h"
#include "schedule/algorithm.h"

namespace unisono {
namespace {

std::string canonical(std::string_view text) {
  const auto choice = parse_choice(text, algorithms());
  return choice.ok() ? to_string(*choice, algorithms()) : std::string(choice.status().message());
}

TEST(Choice, ParsesAndPrints) {
  const struct {
    const char* text;
    const char* printed;
  } cases[] = {
      {"ring", "ring"},
      {" ring() depth=0 codec=none ", "ring"},
      {"sharded_ps", "sharded_ps"},
      {"sharded_ps(window=0)", "sharded_ps"},
      {"sharded_ps ( window = 02 )\tdepth=4 codec=fp16", "sharded_ps(window=2) codec=fp16 depth=4"},
      {"ring depth=2 links=between_hosts codec=int8",
       "ring codec=int8 links=between_hosts depth=2"},
      {"ring links=all", "ring"},
  };
  for (const auto& c : cases) EXPECT_EQ(canonical(c.text), c.printed) << c.text;
  const auto choice = parse_choice("sharded_ps codec=int8", algorithms());
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->parameters.integer("window"), 0) << "resolved though not given";
  EXPECT_EQ(choice->codec, "int8");
}

TEST(Choice, SaysWhatWasWrong) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"rng", "unknown algorithm rng: did you mean ring?"},
      {"sharded_ps(widow=2)", "unknown parameter of sharded_ps widow: did you mean window?"},
      {"ring(window=2)", "unknown parameter of ring window: it takes none"},
      {"sharded_ps(window=-1)", "sharded_ps: window=-1: expected a number from 0 to 1048576"},
      {"sharded_ps(window=two)", "sharded_ps: window=two: expected a number from 0 to 1048576"},
      {"sharded_ps(window=1,window=1)", "window is given twice"},
      {"sharded_ps(window)", "'window': expected name=value"},
      {"sharded_ps(window=2", "'sharded_ps(window=2': expected a closing )"},
      {"ring depht=2", "unknown key depht: did you mean depth?"},
      {"ring colour=2", "unknown key colour: expected one of codec, depth, links"},
      {"ring links=some", "links=some: expected all or between_hosts"},
      {"ring depth=65", "depth=65: expected a number from 0 to 64"},
      {"ring depth=1 depth=1", "depth is given twice"},
      {"ring codec=", "codec=: expected a name"},
      {"ring fast", "'fast': expected name=value"},
  };
  for (const auto& c : cases) {
    EXPECT_FALSE(parse_choice(c.text, algorithms()).ok()) << c.text;
    EXPECT_EQ(canonical(c.text), c.message) << c.text;
  }
  EXPECT_TRUE(canonical("").starts_with("unknown algorithm '': expected one of naive_ps, "));
}

TEST(Choice, EveryAlgorithmAndParameterRoundTrips) {
  for (const Algorithm* row : algorithms()) {
    Parameters given;
    for (const ParameterSpec& spec : row->parameters)
      given.set(spec.name, std::to_string(spec.max));
    for (const Parameters& parameters : {Parameters(), given}) {
      const auto resolved = resolve_parameters(*row, parameters);
      ASSERT_TRUE(resolved.ok()) << row->name << ": " << resolved.status().message();
      const Choice choice{std::string(row->name), *resolved, "bf16", 3, CodecLinks::kBetweenHosts};
      const auto again = parse_choice(to_string(choice, algorithms()), algorithms());
      ASSERT_TRUE(again.ok()) << again.status().message();
      EXPECT_EQ(*again, choice) << row->name;
    }
  }
}

TEST(Choice, AnyTextIsAChoiceThatRoundTripsOrAnError) {
  constexpr std::string_view kWords[] = {
      "ring",   "sharded_ps", "(",      ")",     "window",
      "=",      ",",          "depth",  "codec", "fp16",
      "1",      "0",          " ",      " ",     "sharded_ps(window=",
      "depth=", "-",          "links=", "all",   "between_hosts",
      "\n",     "\x80",       "99999999999999999999"};
  const auto seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (auto words = random() % 8; words > 0; --words) {
      text += kWords[random() % std::size(kWords)];
      if (random() % 16 == 0) text += static_cast<char>(random());
    }
    const auto choice = parse_choice(text, algorithms());
    if (!choice.ok()) {
      EXPECT_EQ(choice.status().code(), StatusCode::kInvalidArgument);
      continue;
    }
    ++accepted;
    const auto again = parse_choice(to_string(*choice, algorithms()), algorithms());
    ASSERT_TRUE(again.ok()) << text << ": " << again.status().message();
    EXPECT_EQ(*again, *choice) << text;
  }
  EXPECT_GT(accepted, 20) << "the words no longer make choices";
}

}  // namespace
}  // namespace unisono
