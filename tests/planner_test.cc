// SPDX-License-Identifier: Apache-2.0
// What runs a call, and who said so: the call before the settings before the rules. No ranks needed.
#include "communicator/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/ranks.h"

namespace unisono {
namespace {

using ::testing::HasSubstr;

constexpr const char* kRules = "bytes<=1K shared_memory=1: one_shot; *: ring";

// What a plan says of itself, or the error.
struct Case {
  const char *name, *algorithm, *form;  // settings
  AllReduceCall call;
  bool mapped;
  std::vector<int> hosts;
  const char *runs, *reason, *by;
};

std::vector<Case> cases() {
  const Codec* const fp16 = *find_codec("fp16");
  const AllReduceCall small{.count = 16}, large{.count = 1 << 20};
  const auto with = [](AllReduceCall call, std::optional<Choice> choice, std::optional<const Codec*> codec) {
    call.choice = std::move(choice);
    call.codec = codec;
    return call;
  };
  const Choice pairwise{.algorithm = "pairwise"}, int8{.algorithm = "ring", .codec = "int8"};
  return {
      {"a rule", "auto", "direct", small, true, {}, "one_shot", "rule 'bytes<=1K shared_memory=1: one_shot'", "direct"},
      {"not mapped", "auto", "direct", small, false, {}, "ring", "rule '*: ring'", "schedule"},
      {"schedules only", "auto", "schedule", small, true, {}, "one_shot", "rule", "schedule"},
      {"the settings", "sharded_ps", "direct", small, true, {}, "sharded_ps", "forced by UNISONO_ALGORITHM", "direct"},
      {"the call", "sharded_ps", "direct", with(small, pairwise, {}), true, {}, "pairwise", "forced by the call",
       "schedule"},
      {"a codec by name", "auto", "direct", with(large, {}, fp16), false, {}, "ring codec=fp16", "rule", "schedule"},
      {"another codec", "auto", "direct", with(large, int8, fp16), false, {}, "the call asks for codec fp16",
       "codec=int8", nullptr},
      {"no such codec of ints", "auto", "direct",
       with({.count = 16, .type = DataType::kInt32}, {}, fp16), false, {}, "fp16", "", nullptr},
      {"a codec for no link", "ring codec=fp16 links=between_hosts", "direct", large, false, {0, 0}, "ring",
       "forced by UNISONO_ALGORITHM", "schedule"},
      {"no such algorithm", "auto", "direct", with(small, Choice{.algorithm = "magic"}, {}), true, {},
       "unknown algorithm 'magic'", "", nullptr},
  };
}

TEST(Planner, ObeysTheCallThenTheSettingsThenTheRules) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const Settings settings = testing::options_with({{"UNISONO_RULES", kRules},
                                                     {"UNISONO_ALGORITHM", each.algorithm},
                                                     {"UNISONO_FORM", each.form}})
                                  .settings;
    auto policy = read_policy(settings);
    ASSERT_TRUE(policy.ok()) << policy.status().message();
    const Planner planner(settings, policy.take(),
                          {.shape = {.size = 2, .groups = each.hosts},
                           .shared_memory = each.mapped,
                           .direct_forms = each.mapped});
    const auto plan = planner.plan(each.call);
    ASSERT_EQ(plan.ok(), each.by != nullptr) << plan.status().message();
    if (!plan.ok()) {
      EXPECT_EQ(plan.status().code(), StatusCode::kUnsupported);
      EXPECT_THAT(std::string(plan.status().message()), HasSubstr(each.runs));
      EXPECT_THAT(std::string(plan.status().message()), HasSubstr(each.reason));
      continue;
    }
    const std::string codec = (*plan)->choice.codec;
    EXPECT_EQ((*plan)->choice.algorithm + (codec == "none" ? "" : " codec=" + codec), each.runs);
    EXPECT_THAT((*plan)->reason, HasSubstr(each.reason));
    EXPECT_STREQ((*plan)->direct == nullptr ? "schedule" : "direct", each.by);
    EXPECT_GE((*plan)->choice.depth, 1);
  }
}

TEST(Planner, NamesTheSettingThatIsWrong) {
  for (const auto& [setting, value] : {std::pair("UNISONO_RULES", "bytes<=1K: magic"),
                                       std::pair("UNISONO_ALGORITHM", "magic"),
                                       std::pair("UNISONO_ALGORITHM", "ring codec=magic")}) {
    const auto policy = read_policy(testing::options_with({{setting, value}}).settings);
    ASSERT_FALSE(policy.ok()) << value;
    EXPECT_TRUE(policy.status().message().starts_with(setting)) << policy.status().message();
  }
}

}  // namespace
}  // namespace unisono
