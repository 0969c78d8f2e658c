// SPDX-License-Identifier: Apache-2.0
// verify() finds every kind of fault, says where it is, and survives any schedule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "algorithms/patterns.h"
#include "algorithms/registry.h"
#include "canary_algorithms.h"

namespace unisono {
namespace {

TEST(Canaries, AreAllRefusedForTheirFault) {
  std::set<Fault> found;
  for (const Canary& canary : canaries()) {
    for (int ranks : {3, 5, 6}) {
      const Verification result = verify(build_all(canary.algorithm, {.size = ranks}));
      EXPECT_EQ(name_of(result.fault), name_of(canary.fault))
          << canary.algorithm.name << ", " << ranks << " ranks: " << result.explanation;
      if (ranks == 3) {
        EXPECT_THAT(result.explanation, testing::HasSubstr(canary.explanation))
            << canary.algorithm.name;
      }
    }
    found.insert(canary.fault);
  }
  EXPECT_EQ(found.size(), static_cast<size_t>(Fault::kFinish)) << "some fault has no canary";
}

// Rank 1 cannot fold its first view of rank 0 before rank 2 has got what the second one is part of.
Schedule needs_two_credits(const Shape& shape) {
  Builder b(shape, 2);
  switch (shape.rank) {
    case 0:
      b.send(1, chunk(0));
      b.send(1, chunk(1));
      b.recv(1, chunks(0, 2));
      break;
    case 1:
      b.recv_reduce(std::vector{0, 2}, chunk(0), Finish::kYes);
      b.recv_reduce(0, chunk(1), Finish::kNo);
      b.send(2, chunk(1));
      b.recv(2, chunk(1));
      b.send(0, chunks(0, 2));
      b.send(2, chunk(0));
      break;
    default:
      const auto second = b.recv_reduce(1, chunk(1), Finish::kYes);
      b.order(second, b.send(1, chunk(0)));
      b.send(1, chunk(1));
      b.recv(1, chunk(0));
  }
  return std::move(b).build();
}

TEST(Verify, CountsCredits) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 3; ++rank)
    schedules.push_back(needs_two_credits({.rank = rank, .size = 3}));
  for (int credits : {0, 2}) {
    const Verification result = verify(schedules, {.slices = 3, .credits = credits});
    EXPECT_TRUE(result.ok()) << result.explanation;
  }
  EXPECT_EQ(verify(schedules, {.slices = 3, .credits = 1}).fault, Fault::kDeadlock);
}

// One-shot between two ranks through a codec: each must go on with the decoded form of its own.
Schedule coded_exchange(int rank, bool decode_mine) {
  const int peer = 1 - rank;
  Schedule s;
  s.rank = rank;
  s.size = 2;
  s.scratch_slots = s.encoded_slots = 1;
  s.peers = {{peer, 0, true}, {peer, 0, true}};
  s.after = {0, 0, 2};
  s.steps = {
      {.kind = StepKind::kEncode,
       .chunks = {},
       .target = {Space::kEncoded},
       .source = {Space::kInput}},
      {.kind = StepKind::kSend,
       .chunks = {},
       .source = {Space::kEncoded},
       .first_peer = 0,
       .peer_count = 1,
       .first_after = 0,
       .after_count = 1},
      {.kind = StepKind::kDecode,
       .chunks = {},
       .target = {Space::kScratch},
       .source = {Space::kEncoded},
       .first_after = 1,
       .after_count = 1},
      {.kind = StepKind::kRecvReduce,
       .finishes = true,
       .chunks = {},
       .target = {Space::kOutput},
       .source = {decode_mine ? Space::kScratch : Space::kInput},
       .first_peer = 1,
       .peer_count = 1,
       .first_after = 1,
       .after_count = 2},
  };
  return s;
}

TEST(Verify, FollowsValuesThroughTheCodec) {
  const Verification good = verify(std::vector{coded_exchange(0, true), coded_exchange(1, true)});
  EXPECT_TRUE(good.ok()) << good.explanation;
  EXPECT_EQ(good.order, AdditionOrder::kOther);
  const Verification bad = verify(std::vector{coded_exchange(0, false), coded_exchange(1, false)});
  EXPECT_EQ(bad.fault, Fault::kOrder);
  EXPECT_EQ(
      bad.explanation,
      "chunk 0 is (encode(0) + 1) on rank 1, but (0 + encode(1)) on rank 0: the bits may differ");
}

TEST(Verify, RefusesSetsThatAreNoCommunicator) {
  EXPECT_EQ(verify({}).fault, Fault::kMalformed);
  const auto ring = build_all(*find_algorithm("ring"), {.size = 3});
  EXPECT_EQ(verify(std::span(ring).first(2)).fault, Fault::kMalformed);
  EXPECT_EQ(verify(std::vector{ring[0], ring[2], ring[1]}).fault, Fault::kMalformed);
  EXPECT_EQ(verify(ring, {.servers = {3}}).fault, Fault::kMalformed);
  EXPECT_EQ(verify(ring, {.servers = {0, 1, 2}}).fault, Fault::kMalformed);
  EXPECT_EQ(verify(ring, {.slices = 0}).fault, Fault::kMalformed);
  EXPECT_EQ(verify(ring, {.servers = {1}}).fault, Fault::kReadBeforeWrite);
}

TEST(Verify, EveryEdgeAndFlagOfTheRingIsNeeded) {
  const auto ring = build_all(*find_algorithm("ring"), {.size = 4});
  for (size_t step = 0; step < ring[0].steps.size(); ++step) {
    auto flipped = ring;
    flipped[0].steps[step].finishes ^= true;
    EXPECT_FALSE(verify(flipped).ok()) << "finishes of step " << step;
    if (ring[0].steps[step].after_count == 0) continue;
    auto cut = ring;
    cut[0].steps[step].after_count = 0;
    EXPECT_EQ(verify(cut).fault, Fault::kRace) << "edges of step " << step;
  }
}

// A field of a schedule changed to something small or something huge.
void damage(Schedule& schedule, std::mt19937& random) {
  const auto value = [&] {
    return static_cast<uint32_t>(random() % 4 == 0 ? random() : random() % 6);
  };
  if (schedule.steps.empty()) return;
  Step& step = schedule.steps[random() % schedule.steps.size()];
  switch (random() % 15) {
    case 0:
      step.kind = static_cast<StepKind>(value());
      break;
    case 1:
      step.finishes ^= true;
      break;
    case 2:
      schedule.peers[random() % schedule.peers.size()].encoded ^= true;
      break;
    case 3:
      step.chunks.first = value();
      break;
    case 4:
      step.chunks.count = value();
      break;
    case 5:
      step.target = {static_cast<Space>(value()), static_cast<uint16_t>(value())};
      break;
    case 6:
      step.source = {static_cast<Space>(value()), static_cast<uint16_t>(value())};
      break;
    case 7:
      step.first_peer = value();
      break;
    case 8:
      step.peer_count = value();
      break;
    case 9:
      step.after_count = value();
      break;
    case 10:
      schedule.peers[random() % schedule.peers.size()] = {static_cast<int>(value()), value(), false};
      break;
    case 11:
      schedule.chunks = value();
      break;
    case 12:
      schedule.scratch_slots = static_cast<uint16_t>(value());
      break;
    case 13:
      schedule.steps.pop_back();
      break;
    case 14:
      step.residual = static_cast<Residual>(value());
      break;
  }
}

TEST(Verify, SurvivesAnySchedule) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::set<Fault> found;
  for (int i = 0; i < 20000; ++i) {
    const Algorithm& algorithm = *algorithms()[random() % algorithms().size()];
    Shape shape{.size = 3 + i % 3};
    shape.parameters = *resolve_parameters(algorithm, {});
    auto schedules = build_all(algorithm, shape);
    for (auto wounds = 1 + random() % 3; wounds > 0; --wounds)
      damage(schedules[random() % schedules.size()], random);
    const Verification result = verify(schedules, {.slices = 2, .credits = 1});
    EXPECT_EQ(result.ok(), result.explanation.empty());
    found.insert(result.fault);
  }
  EXPECT_GE(found.size(), 6u) << "the damage no longer reaches the deeper checks";
}

}  // namespace
}  // namespace unisono
