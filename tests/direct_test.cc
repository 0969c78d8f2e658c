// SPDX-License-Identifier: Apache-2.0
// Direct forms against the schedules that are their proof: the same bits, at every edge of their ranges.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "algorithms/registry.h"
#include "direct/block.h"
#include "tests/support/ranks.h"
#include "tools/check.h"

namespace unisono {
namespace {

// Lengths around which forms and turns change hands, in bytes.
std::vector<size_t> edges(int ranks) {
  const auto p = static_cast<size_t>(ranks);
  std::vector<size_t> bytes = {8, DirectBlock::Line::kPayload, DirectBlock::kLines * DirectBlock::Line::kPayload,
                               DirectBlock::kSlotBytes, DirectBlock::kTurnBytes, 3 * DirectBlock::kTurnBytes,
                               p * (size_t{4} << 10), p * (size_t{8} << 10), 4 * p * (size_t{64} << 10)};
  std::vector<size_t> around;
  for (const size_t edge : bytes)
    for (const size_t each : {edge - 8, edge, edge + 8, edge + 64 * 8, edge + 64 * 8 + 8}) around.push_back(each);
  return around;
}

std::vector<uint64_t> results(int ranks, const Algorithm& algorithm, DataType type, const char* form) {
  testing::RankOptions options;
  EXPECT_TRUE(options.settings.set("UNISONO_FORM", form, "options").ok());
  std::vector<std::vector<uint64_t>> hashes(static_cast<size_t>(ranks));
  testing::run_threads(
      ranks,
      [&](Communicator& communicator) {
        const Problem problem(InputSet::kOrderSensitive, type, ReduceOp::kAvg, ranks, communicator.rank());
        const auto p = static_cast<size_t>(ranks);
        std::vector<std::byte> input(std::ranges::max(edges(ranks)) + 64), other(input.size());
        size_t turn = 0;
        for (const size_t bytes : edges(ranks)) {
          const size_t count = bytes / size_of(type);
          // In place in turn with an output that begins within a line.
          std::byte* const output = turn++ % 2 == 0 ? other.data() + size_of(type) : input.data();
          problem.write_input(count, input.data(), count);
          const AllReduceCall call{.input = input.data(),
                                   .output = output,
                                   .count = count,
                                   .type = type,
                                   .op = ReduceOp::kAvg,
                                   .choice = Choice{.algorithm = std::string(algorithm.name)}};
          const auto plan = communicator.plan(call);
          ASSERT_TRUE(plan.ok());
          if (form == std::string_view("schedule")) {
            EXPECT_EQ(plan->form, "schedule");
          } else if (plan->form != "schedule") {
            EXPECT_EQ(plan->form == "mapped", form == std::string_view("direct") && bytes >= p * (size_t{4} << 10));
          }
          const Status status = communicator.all_reduce(call);
          ASSERT_TRUE(status.ok()) << status.message();
          EXPECT_EQ(problem.check(count, output, count).wrong, 0u) << plan->form << " " << bytes;
          hashes[static_cast<size_t>(communicator.rank())].push_back(
              hash_of(output, count * size_of(type)));
        }
      },
      options);
  for (const auto& each : hashes) EXPECT_EQ(each, hashes.front()) << "ranks differ";
  return hashes.front();
}

class DirectForms : public ::testing::TestWithParam<int> {};

TEST_P(DirectForms, GiveTheBitsOfTheirSchedules) {
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->forms.empty()) continue;
    for (const DataType type : {DataType::kFloat16, DataType::kFloat32, DataType::kFloat64}) {
      const auto expected = results(GetParam(), *algorithm, type, "schedule");
      EXPECT_EQ(results(GetParam(), *algorithm, type, "staged"), expected) << algorithm->name << " " << name_of(type);
      // Between threads all buffers are mapped; tests/mapped_test.cc has the rest.
      if (type == DataType::kFloat32) {
        EXPECT_EQ(results(GetParam(), *algorithm, type, "direct"), expected) << algorithm->name;
      }
    }
  }
}

#ifdef __SANITIZE_THREAD__
INSTANTIATE_TEST_SUITE_P(Ranks, DirectForms, ::testing::Values(2, 3));  // more take minutes
#else
INSTANTIATE_TEST_SUITE_P(Ranks, DirectForms, ::testing::Values(2, 3, 5, 9));
#endif

// Every form of every algorithm is met by some length, and none is met outside its range.
TEST(DirectForms, EveryFormServesSomething) {
  for (const Algorithm* algorithm : algorithms()) {
    for (const DirectForm* form : algorithm->forms) {
      bool first = false;
      for (const size_t bytes : edges(4)) {
        const DirectShape shape{bytes, 4};
        const auto found = std::ranges::find_if(algorithm->forms, [&](const DirectForm* f) {
          return f->needs_mapped_buffers == form->needs_mapped_buffers && f->serves(shape);
        });
        first |= found != algorithm->forms.end() && *found == form;
      }
      EXPECT_TRUE(first) << algorithm->name << " " << form->name;
    }
  }
}

}  // namespace
}  // namespace unisono
