// SPDX-License-Identifier: Apache-2.0
// Whom a rank waits for first: those that share its CPU, since they run only when it lets them.
#include "execute/direct_lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstring>
#include <memory>
#include <thread>

#include "algorithms/registry.h"
#include "topology/host.h"

namespace unisono {
namespace {

using ::testing::ElementsAre;

// Maps blocks, and does nothing else.
class Blocks final : public Transport {
 public:
  explicit Blocks(size_t ranks) : blocks_(ranks) {
    for (auto& block : blocks_) {
      block = std::make_unique<DirectBlock>();
      mapped_.push_back(reinterpret_cast<std::byte*>(block.get()));
    }
  }
  DirectBlock& block(size_t rank) { return *blocks_[rank]; }

  std::string address() const override { return {}; }
  Status reach(std::string_view) const override { return {}; }
  Status connect(std::span<const PeerAddress>, Deadline) override { return {}; }
  Channel& channel(int) override { std::abort(); }
  std::span<std::byte* const> mapped_blocks() const override { return mapped_; }
  int progress() override { return 0; }
  void sleep(std::chrono::nanoseconds, const Ready&) override {}
  void abort() override {}

 private:
  std::vector<std::unique_ptr<DirectBlock>> blocks_;
  std::vector<std::byte*> mapped_;
};

TEST(DirectLane, NeighboursComeFirst) {
  std::jthread([] {
    const int cpu = allowed_cpus().front();
    ASSERT_TRUE(bind_thread(std::span(&cpu, 1)).ok());
    const auto here = static_cast<uint64_t>(cpu) + 1, elsewhere = here + 1;
    Blocks blocks(6);
    DirectLane lane(&blocks, 2);
    lane.find_neighbours();
    EXPECT_THAT(lane.peers(), ElementsAre(0, 1, 3, 4, 5));
    EXPECT_FALSE(lane.has_neighbours());
    EXPECT_EQ(blocks.block(2).cpu.value, here);

    for (const size_t rank : {1, 4, 5}) blocks.block(rank).cpu.value = here;
    for (const size_t rank : {0, 3}) blocks.block(rank).cpu.value = elsewhere;
    for (int again = 0; again < 2; ++again) {
      lane.find_neighbours();
      EXPECT_THAT(lane.peers(), ElementsAre(1, 4, 5, 0, 3));
      EXPECT_TRUE(lane.has_neighbours());
      EXPECT_FALSE(lane.awaits_neighbour());  // no call waits
    }

    blocks.block(1).cpu.value = blocks.block(4).cpu.value = elsewhere;
    lane.find_neighbours();
    EXPECT_EQ(lane.peers().front(), 5);
    blocks.block(5).cpu.value = elsewhere;
    lane.find_neighbours();
    EXPECT_FALSE(lane.has_neighbours());
  }).join();
}

// A peer that was not looked at yet moves to the front, and must not be passed over.
TEST(DirectLane, ANewOrderSkipsNobody) {
  std::jthread([] {
    const int cpu = allowed_cpus().front();
    ASSERT_TRUE(bind_thread(std::span(&cpu, 1)).ok());
    Blocks blocks(3);
    DirectLane lane(&blocks, 0);
    lane.find_neighbours();
    const auto plan = std::make_shared<const Plan>(make_plan({.algorithm = find_algorithm("one_shot"),
                                                              .codec = nullptr,
                                                              .choice = {.algorithm = "one_shot", .depth = 1},
                                                              .reason = "",
                                                              .shape = {.rank = 0, .size = 3},
                                                              .count = 1,
                                                              .type = DataType::kInt32,
                                                              .op = ReduceOp::kSum,
                                                              .slice_bytes = 4096,
                                                              .mapped = true}));
    Channel* const channels[3] = {};
    Call call(plan, channels, lane.blocks(), lane.peers());
    const int32_t input = 1;
    int32_t output = 0;
    const auto come = [&](size_t rank, int32_t value) {
      DirectBlock::Line& line = blocks.block(rank).lines[1][0];
      std::memcpy(line.payload, &value, sizeof value);
      publish(line.word, uint64_t{1} << 32 | plan->signature);
    };
    lane.start(call, 0, &input, &output);
    come(1, 20);
    lane.advance();
    EXPECT_FALSE(lane.awaits_neighbour());

    blocks.block(2).cpu.value = static_cast<uint64_t>(cpu) + 1;
    lane.find_neighbours();
    EXPECT_THAT(lane.peers(), ElementsAre(2, 1));
    EXPECT_TRUE(lane.awaits_neighbour());
    lane.advance();
    EXPECT_FALSE(call.finished());
    come(2, 300);
    lane.advance();
    EXPECT_TRUE(call.finished());
    EXPECT_EQ(output, 321);
    EXPECT_FALSE(lane.awaits_neighbour());
  }).join();
}

TEST(DirectLane, WithoutMappedMemoryThereIsNone) {
  DirectLane lane(nullptr, 0);
  lane.find_neighbours();
  EXPECT_FALSE(lane.exists());
  EXPECT_FALSE(lane.has_neighbours());
  EXPECT_TRUE(lane.peers().empty());
}

}  // namespace
}  // namespace unisono
