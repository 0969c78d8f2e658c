// SPDX-License-Identifier: Apache-2.0
// What is particular to simulated: one thread runs all ranks, the same each time, with faults.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "tests/support/transport_world.h"
#include "transports/simulated/network.h"

namespace unisono::testing {
namespace {

Key key(uint32_t message) {
  return {1, message, 0, 0xfeed};
}

// Two ranks in one thread.
struct Two {
  explicit Two(const SimulatedOptions& options)
      : network(SimulatedNetwork::create(2, options)),
        ranks{network->transport(0), network->transport(1)} {}
  void turn(int times) {
    while (times-- > 0)
      for (const auto& rank : ranks) rank->progress();
  }
  Channel& channel(int rank) { return ranks[static_cast<size_t>(rank)]->channel(1 - rank); }

  std::shared_ptr<SimulatedNetwork> network;
  std::array<std::unique_ptr<Transport>, 2> ranks;
};

// The order in which 20 messages arrive.
std::vector<uint32_t> arrivals(uint64_t seed) {
  struct Arrival : Completion {
    uint32_t message, value;
    std::vector<uint32_t>* order;
  };
  Two two({.seed = seed});
  std::vector<uint32_t> order;
  std::array<Arrival, 20> receives;
  std::array<Ended, 20> sends;
  const uint32_t value = 1;
  for (uint32_t m = 0; m < 20; ++m) {
    receives[m].message = m;
    receives[m].order = &order;
    receives[m].done = [](Completion& self, Status) {
      auto& arrival = static_cast<Arrival&>(self);
      arrival.order->push_back(arrival.message);
    };
    two.channel(1).post_recv(key(m), &receives[m].value, sizeof value, receives[m]);
    two.channel(0).post_send(key(m), &value, sizeof value, sends[m]);
  }
  two.turn(20);
  return order;
}

TEST(Simulated, ASeedIsARunAndMessagesOvertake) {
  const auto one = arrivals(1);
  EXPECT_EQ(one.size(), 20u);
  EXPECT_EQ(one, arrivals(1));
  EXPECT_NE(one, arrivals(2));
  EXPECT_FALSE(std::ranges::is_sorted(one));
}

TEST(Simulated, ARendezvousSendEndsWithItsReceive) {
  for (const bool rendezvous : {true, false}) {
    Two two({.rendezvous = rendezvous});
    int out = 5, in = 0;
    Ended send, receive;
    two.channel(0).post_send(key(0), &out, sizeof out, send);
    two.turn(50);
    EXPECT_EQ(send.times, rendezvous ? 0 : 1);
    two.channel(1).post_recv(key(0), &in, sizeof in, receive);
    two.turn(50);
    EXPECT_EQ(send.times, 1);
    EXPECT_EQ(in, 5);
  }
}

TEST(Simulated, AStoppedRankSaysNothingAndAKilledOneIsNoticed) {
  Two two({});
  int out = 5, in = 0;
  Ended send, receive;
  two.network->stop(0);
  two.channel(1).post_recv(key(0), &in, sizeof in, receive);
  two.channel(1).post_send(key(0), &out, sizeof out, send);
  two.turn(100);
  EXPECT_EQ(receive.times + send.times, 0);
  two.network->kill(0);
  two.turn(100);
  for (const Ended* post : {&receive, &send}) {
    EXPECT_EQ(post->times, 1);
    EXPECT_EQ(post->status.code(), StatusCode::kPeerFailed);
    EXPECT_EQ(post->status.message(), "rank 0 died");
  }
}

TEST(Simulated, ACorruptedLengthIsAMismatch) {
  for (const bool rendezvous : {true, false}) {
    Two two({.rendezvous = rendezvous});
    int out = 5, in = 0;
    Ended good, bad, receive_good, receive_bad;
    two.network->corrupt_length(0, 1, 1);
    two.channel(0).post_send(key(0), &out, sizeof out, good);
    two.channel(1).post_recv(key(0), &in, sizeof in, receive_good);
    two.turn(50);
    EXPECT_TRUE(receive_good.times == 1 && receive_good.status.ok());
    two.channel(0).post_send(key(1), &out, sizeof out, bad);
    two.channel(1).post_recv(key(1), &in, sizeof in, receive_bad);
    two.turn(50);
    EXPECT_EQ(receive_bad.status.message(),
              "message 1 of call 1: rank 0 sent 5 bytes, rank 1 expected 4");
    EXPECT_EQ(bad.status.code(), rendezvous ? StatusCode::kMismatch : StatusCode::kOk);
  }
}

}  // namespace
}  // namespace unisono::testing
