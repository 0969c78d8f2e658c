// SPDX-License-Identifier: Apache-2.0
// Schedules as text, against what a reader expects to see.
#include "schedule/explain.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/registry.h"

namespace unisono {
namespace {

std::string explained(std::string_view algorithm, Shape shape, const Parameters& given = {}) {
  const Algorithm& row = *find_algorithm(algorithm);
  shape.parameters = *resolve_parameters(row, given);
  return fmt::format("\n{}", explain(row.build(shape)));
}

TEST(Explain, Ring) {
  EXPECT_EQ(explained("ring", {.rank = 1, .size = 3}), R"(
all_reduce, rank 1 of 3: 3 chunks, 8 steps
   0 send        chunk 1     input to 2 #0
   1 recv_reduce chunk 0     output = from 0 #0 + input
   2 send        chunk 0     output to 2 #1                       after 1
   3 recv_reduce chunk 2     output = from 0 #1 + input           finishes
   4 send        chunk 2     output to 2 #2                       after 3
   5 recv        chunk 1     output = from 0 #2                   after 0
   6 send        chunk 1     output to 2 #3                       after 5
   7 recv        chunk 0     output = from 0 #3                   after 1…2
)");
}

TEST(Explain, RunsOfPeersAreShort) {
  EXPECT_EQ(explained("naive_ps", {.rank = 2, .size = 9, .root = 2}), R"(
all_reduce, rank 2 of 9: 1 chunk, 2 steps
   0 recv_reduce chunk 0     output = from 0…1 #0 + input + from 3…8 #0  finishes
   1 send        chunk 0     output to 0…1 #0, 3…8 #0             after 0
)");
}

TEST(Explain, ServersHaveNoInput) {
  EXPECT_EQ(explained("sharded_ps", {.rank = 3, .size = 4, .servers = {3}}), R"(
all_reduce, rank 3 of 4: 1 chunk, 4 steps
   0 recv_reduce chunk 0     output = from 0…2 #0                 finishes
   1 send        chunk 0     output to 0 #0                       after 0
   2 send        chunk 0     output to 1 #0                       after 0
   3 send        chunk 0     output to 2 #0                       after 0
)");
}

TEST(Explain, WindowOrdersSteps) {
  Parameters given;
  given.set("window", "2");
  EXPECT_EQ(explained("sharded_ps", {.rank = 0, .size = 4}, given), R"(
all_reduce, rank 0 of 4: 4 chunks, 11 steps
   0 send        chunk 1     input to 1 #0
   1 send        chunk 2     input to 2 #0
   2 send        chunk 3     input to 3 #0                        after 0
   3 recv_reduce chunk 0     output = input + from 2…3 #0
   4 recv_reduce chunk 0     output = output + from 1 #0          after 3, finishes
   5 send        chunk 0     output to 1 #1                       after 1, 4
   6 recv        chunk 3     output = from 3 #1                   after 2
   7 send        chunk 0     output to 2 #1                       after 2, 4
   8 recv        chunk 2     output = from 2 #1                   after 1
   9 send        chunk 0     output to 3 #1                       after 4…5
  10 recv        chunk 1     output = from 1 #1                   after 0, 6
)");
}

TEST(Explain, WorldOfOneAndRangesOfChunks) {
  EXPECT_EQ(explained("double_binary_tree", {}), R"(
all_reduce, rank 0 of 1: 2 chunks, 1 step
   0 copy        chunks 0…1  output = input
)");
}

TEST(Explain, Codec) {
  Schedule schedule;
  schedule.size = 2;
  schedule.peers = {{1, 0, true}};
  schedule.after = {0};
  schedule.steps.resize(3);
  schedule.steps[0] = {.kind = StepKind::kEncode,
                       .chunks = {},
                       .target = {Space::kEncoded},
                       .source = {Space::kInput}};
  schedule.steps[1] = {.kind = StepKind::kSend,
                       .chunks = {},
                       .source = {Space::kEncoded},
                       .peer_count = 1,
                       .after_count = 1};
  schedule.steps[2] = {.kind = StepKind::kDecode,
                       .chunks = {},
                       .target = {Space::kScratch, 3},
                       .source = {Space::kEncoded},
                       .after_count = 1};
  EXPECT_EQ(fmt::format("\n{}", explain(schedule)), R"(
all_reduce, rank 0 of 2: 1 chunk, 3 steps
   0 encode      chunk 0     encoded[0] = encode(input)
   1 send        chunk 0     encoded[0] to 1 #0                   after 0, encoded
   2 decode      chunk 0     scratch[3] = decode(encoded[0])      after 0
)");
}

}  // namespace
}  // namespace unisono
