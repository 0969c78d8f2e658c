// SPDX-License-Identifier: Apache-2.0
// The builder: edges where accesses overlap, message numbers, and how chunks divide elements.
#include "schedule/builder.h"

#include <gtest/gtest.h>

#include "schedule/schedule.h"

namespace unisono {
namespace {

std::vector<uint32_t> after(const Schedule& schedule, size_t step) {
  const auto edges = schedule.after_of(schedule.steps[step]);
  return {edges.begin(), edges.end()};
}

TEST(Builder, WriterWaitsForReadersAndReadersForTheWriter) {
  const Shape shape{.rank = 0, .size = 2};
  Builder b(shape, 2);
  b.send(1, {0, 1});                      // 0 reads chunk 0
  b.send(1, {1, 1});                      // 1 reads chunk 1
  b.recv_reduce(1, {0, 1}, Finish::kYes);  // 2 writes chunk 0: after 0
  b.send(1, {0, 1});                      // 3 reads chunk 0: after 2 only
  b.recv(1, {0, 2});                      // 4 writes both: after 1, 2, 3
  const Schedule s = std::move(b).build();
  ASSERT_EQ(s.steps.size(), 5u);
  EXPECT_EQ(after(s, 1), std::vector<uint32_t>{});
  EXPECT_EQ(after(s, 2), std::vector<uint32_t>{0});
  EXPECT_EQ(after(s, 3), std::vector<uint32_t>{2});
  EXPECT_EQ(after(s, 4), (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_EQ(s.peers_of(s.steps[3])[0].message, 2u);
  EXPECT_EQ(s.steps[0].source.space, Space::kInput);
  EXPECT_EQ(s.steps[3].source.space, Space::kOutput);
}

TEST(Builder, WorldOfOneIsACopy) {
  const Shape shape;
  const Schedule s = Builder(shape, 3).build();
  ASSERT_EQ(s.steps.size(), 1u);
  EXPECT_EQ(s.steps[0].kind, StepKind::kCopy);
  EXPECT_EQ(s.steps[0].chunks, (ChunkRange{0, 3}));
}

TEST(Chunks, CoverEveryElementOnce) {
  for (uint32_t chunks : {1u, 2u, 3u, 7u, 64u}) {
    for (size_t count : {size_t{0}, size_t{1}, size_t{6}, size_t{63}, size_t{64}, size_t{1000003},
                         size_t{1} << 33, (size_t{1} << 62) + 7}) {
      size_t next = 0;
      for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
        const ElementRange range = elements_of({chunk, 1}, chunks, count);
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.end, range.begin);
        if (count >= chunks) {
          EXPECT_GT(range.count(), 0u) << count << " in " << chunks;
        }
        next = range.end;
      }
      EXPECT_EQ(next, count);
      const ElementRange all = elements_of({0, chunks}, chunks, count);
      EXPECT_EQ(all.begin, 0u);
      EXPECT_EQ(all.end, count);
    }
  }
}

}  // namespace
}  // namespace unisono
