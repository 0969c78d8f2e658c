// SPDX-License-Identifier: Apache-2.0
// The transport contract of a good day, over every transport and every way to be a rank.
#include "transport/transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <random>

#include "tests/support/contract.h"

namespace unisono::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Ways, Contract, ::testing::ValuesIn(ways()),
                         [](const auto& info) { return info.param.name; });

// Exchanges one message of that length each way with every peer.
void exchange(TransportRank& me, uint32_t message, size_t bytes, bool views) {
  std::deque<Post> sends, receives;
  for (int peer = 0; peer < me.size; ++peer) {
    sends.push_back({message, payload(me.rank, peer, message, bytes), {}});
    receives.push_back({message, Data(views ? 0 : bytes), {}});
    if (peer == me.rank) continue;
    Channel& channel = me.transport->channel(peer);
    if (views) {
      channel.post_view(key(message), bytes, receives.back().ended);
    } else {
      channel.post_recv(key(message), receives.back().data.data(), bytes, receives.back().ended);
    }
    channel.post_send(key(message), sends.back().data.data(), bytes, sends.back().ended);
  }
  for (int peer = 0; peer < me.size; ++peer) {
    if (peer == me.rank) continue;
    const Data expected = payload(peer, me.rank, message, bytes);
    Post& receive = receives[static_cast<size_t>(peer)];
    if (views) {
      check_view(me, peer, receive.ended, expected, message);
    } else {
      me.wait(receive.ended);
      ASSERT_TRUE(receive.ended.status.ok()) << receive.ended.status.message();
      expect_payload(receive.data.data(), expected, message);
    }
  }
  for (int peer = 0; peer < me.size; ++peer) {
    if (peer == me.rank) continue;
    const Ended& ended = sends[static_cast<size_t>(peer)].ended;
    me.wait(ended);
    EXPECT_TRUE(ended.status.ok()) << ended.status.message();
    EXPECT_EQ(ended.times, 1);
    EXPECT_EQ(receives[static_cast<size_t>(peer)].ended.times, 1);
  }
}

TEST_P(Contract, AllPairsAllSizes) {
  run(3, [](TransportRank& me) {
    uint32_t message = 0;
    for (const size_t bytes : {0, 1, 7, 16, 17, 64, 4096, 4097, 65536, (1 << 20) + 3})
      for (const bool views : {false, true}) exchange(me, message++, bytes, views);
    me.barrier();
  });
}

TEST_P(Contract, SixtyFourMebibytes) {
  run(2, [](TransportRank& me) {
    Data data(64 << 20, std::byte{0});
    const auto mark = [&](size_t at) { return static_cast<std::byte>(at >> 12 | 1); };
    Ended ended;
    if (me.rank == 0) {
      for (size_t at = 0; at < data.size(); at += 4095) data[at] = mark(at);
      me.transport->channel(1).post_send(key(0), data.data(), data.size(), ended);
    } else {
      me.transport->channel(0).post_recv(key(0), data.data(), data.size(), ended);
    }
    me.wait(ended);
    size_t wrong = 0;
    for (size_t at = 0; at < data.size(); at += 4095) wrong += data[at] != mark(at);
    EXPECT_EQ(wrong, 0u);
    me.barrier();
  });
}

TEST_P(Contract, ManyInFlightInAnyOrder) {
  constexpr unsigned kSeed = 20;
  SCOPED_TRACE(kSeed);
  run(3, [](TransportRank& me) {
    constexpr uint32_t kMessages = 300;
    std::mt19937 random(kSeed + static_cast<unsigned>(me.rank));
    const auto bytes_of = [](uint32_t message) { return message * 2654435761u % 9000; };
    std::deque<Post> sends;
    std::vector<std::deque<Post>> receives(static_cast<size_t>(me.size));
    std::vector<uint32_t> order(kMessages);
    for (int peer = 0; peer < me.size; ++peer) {
      if (peer == me.rank) continue;
      Channel& channel = me.transport->channel(peer);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::shuffle(order, random);
      for (const uint32_t m : order) {
        sends.push_back({m, payload(me.rank, peer, m, bytes_of(m)), {}});
        channel.post_send(key(m), sends.back().data.data(), bytes_of(m), sends.back().ended);
        if (random() % 4 == 0) me.transport->progress();
      }
      std::ranges::shuffle(order, random);
      for (const uint32_t m : order) {
        Post& post =
            receives[static_cast<size_t>(peer)].emplace_back(m, Data(bytes_of(m)), Ended());
        if (m % 2 == 0) {
          channel.post_recv(key(m), post.data.data(), bytes_of(m), post.ended);
        } else {
          channel.post_view(key(m), bytes_of(m), post.ended);
        }
        if (random() % 4 == 0) me.transport->progress();
      }
    }
    for (int peer = 0; peer < me.size; ++peer)
      for (Post& post : receives[static_cast<size_t>(peer)]) {
        const Data expected = payload(peer, me.rank, post.message, bytes_of(post.message));
        if (post.message % 2 == 1) {
          check_view(me, peer, post.ended, expected, post.message);
          continue;
        }
        me.wait(post.ended);
        expect_payload(post.data.data(), expected, post.message);
      }
    for (const Post& post : sends) me.wait(post.ended);
    me.barrier();
  });
}

TEST_P(Contract, KeysTellCallsAndSlicesApart) {
  run(2, [](TransportRank& me) {
    Channel& channel = me.transport->channel(1 - me.rank);
    const Key keys[] = {key(0, 1, 0), key(0, 1, 1), key(0, 2, 0), key(1, 1, 0)};
    uint32_t out[4], in[4] = {};
    Ended sends[4], receives[4];
    for (uint32_t i = 0; i < 4; ++i) {
      out[i] = 100 + i;
      channel.post_send(keys[i], &out[i], sizeof out[i], sends[i]);
    }
    for (uint32_t i = 4; i-- > 0;) channel.post_recv(keys[i], &in[i], sizeof in[i], receives[i]);
    for (uint32_t i = 0; i < 4; ++i) {
      me.wait(receives[i]);
      me.wait(sends[i]);
      EXPECT_EQ(in[i], 100 + i);
    }
    me.barrier();
  });
}

// More than the staging holds stays in hand while other messages go by.
TEST_P(Contract, ViewsAreHeldWhileOthersFlow) {
  run(2, [](TransportRank& me) {
    constexpr uint32_t kHeld = 80;
    constexpr size_t kBytes = 128 << 10;
    Channel& channel = me.transport->channel(1 - me.rank);
    std::deque<Post> sends, views;
    for (uint32_t m = 0; m < kHeld; ++m) {
      sends.push_back({m, payload(me.rank, 1 - me.rank, m, kBytes), {}});
      channel.post_send(key(m), sends.back().data.data(), kBytes, sends.back().ended);
      channel.post_view(key(m), kBytes, views.emplace_back(m, Data(), Ended()).ended);
    }
    for (const Post& view : views) me.wait(view.ended);
    exchange(me, kHeld, kBytes, false);
    exchange(me, kHeld + 1, 8, true);
    for (auto view = views.rbegin(); view != views.rend(); ++view)
      check_view(me, 1 - me.rank, view->ended, payload(1 - me.rank, me.rank, view->message, kBytes),
                 view->message);
    for (const Post& send : sends) me.wait(send.ended);
    me.barrier();
  });
}

// A send ends when its receive is posted, whatever was sent before it.
TEST_P(Contract, UnwantedMessagesBlockNothing) {
  run(2, [](TransportRank& me) {
    constexpr uint32_t kMessages = 120;
    const auto bytes_of = [](uint32_t m) { return size_t{1000} * (m % 3 == 0 ? 400 : m % 7); };
    Channel& channel = me.transport->channel(1 - me.rank);
    std::deque<Post> sends;
    for (uint32_t m = 0; m < kMessages; ++m) {
      sends.push_back({m, payload(me.rank, 1 - me.rank, m, bytes_of(m)), {}});
      channel.post_send(key(m), sends.back().data.data(), bytes_of(m), sends.back().ended);
    }
    for (uint32_t m = kMessages; m-- > 0;) {
      Post receive{m, Data(bytes_of(m)), {}};
      const Data expected = payload(1 - me.rank, me.rank, m, bytes_of(m));
      if (m % 2 == 0) {
        channel.post_view(key(m), bytes_of(m), receive.ended);
        check_view(me, 1 - me.rank, receive.ended, expected, m);
      } else {
        channel.post_recv(key(m), receive.data.data(), bytes_of(m), receive.ended);
        me.wait(receive.ended);
        expect_payload(receive.data.data(), expected, m);
      }
    }
    for (const Post& send : sends) me.wait(send.ended);
    me.barrier();
  });
}

// Each holds the other's message until its own has gone out, as an all-reduce in place does.
TEST_P(Contract, ASendWaitsForNoRelease) {
  run(3, [](TransportRank& me) {
    uint32_t message = 0;
    for (const size_t bytes : {8, 5000, 60000, 1 << 20}) {
      std::deque<Post> sends, views;
      for (int peer = 0; peer < me.size; ++peer) {
        sends.push_back({message, payload(me.rank, peer, message, bytes), {}});
        views.push_back({message, {}, {}});
        if (peer == me.rank) continue;
        Channel& channel = me.transport->channel(peer);
        channel.post_view(key(message), bytes, views.back().ended);
        channel.post_send(key(message), sends.back().data.data(), bytes, sends.back().ended);
      }
      for (int peer = 0; peer < me.size; ++peer)
        if (peer != me.rank) me.wait(sends[static_cast<size_t>(peer)].ended);
      for (Post& send : sends) std::ranges::fill(send.data, std::byte{0xee});
      for (int peer = 0; peer < me.size; ++peer)
        if (peer != me.rank)
          check_view(me, peer, views[static_cast<size_t>(peer)].ended,
                     payload(peer, me.rank, message, bytes), message);
      ++message;
    }
    me.barrier();
  });
}

// `done` may post again: a chain of messages that nobody else drives.
TEST_P(Contract, PostsFromDone) {
  run(2, [](TransportRank& me) {
    struct Chain : Completion {
      Channel* channel;
      uint32_t next = 0, value = 0;
    } chain;
    chain.channel = &me.transport->channel(1 - me.rank);
    chain.done = [](Completion& self, Status status) {
      auto& link = static_cast<Chain&>(self);
      EXPECT_TRUE(status.ok());
      if (link.next > 0) {
        EXPECT_EQ(link.value, 7 * (link.next - 1));
      }
      if (link.next == 100) {
        link.next = 101;
        return;
      }
      const uint32_t m = link.next++;
      link.channel->post_recv(key(m), &link.value, sizeof link.value, link);
    };
    uint32_t values[100];
    Ended sends[100];
    if (me.rank == 0) chain.done(chain, Status());
    for (uint32_t m = 0; m < 100; ++m) {
      values[m] = 7 * m;
      chain.channel->post_send(key(m), &values[m], sizeof values[m], sends[m]);
    }
    if (me.rank == 1) chain.done(chain, Status());
    me.wait_until([&] { return chain.next == 101; }, "the chain");
    for (const Ended& send : sends) me.wait(send);
    me.barrier();
  });
}

// Two communicators of the same ranks, with the same keys in flight.
TEST_P(Contract, TwoAtOnce) {
  run(3, [](TransportRank& me) {
    const auto first = me.renew();
    ASSERT_TRUE(me.connect().ok());
    const int peer = (me.rank + 1) % 3, from = (me.rank + 2) % 3;
    Transport* const both[] = {first.get(), me.transport.get()};
    Data out[2], in[2];
    Ended sends[2], receives[2];
    for (const size_t i : {0, 1}) {
      out[i] = payload(me.rank, peer, static_cast<uint32_t>(i), 5000);
      in[i] = Data(5000);
      both[i]->channel(peer).post_send(key(0), out[i].data(), 5000, sends[i]);
    }
    for (const size_t i : {1, 0}) {
      both[i]->channel(from).post_recv(key(0), in[i].data(), 5000, receives[i]);
    }
    for (const size_t i : {0, 1}) {
      me.wait_until(
          [&] {
            first->progress();
            return receives[i].times > 0 && sends[i].times > 0;
          },
          "both");
      expect_payload(in[i].data(), payload(from, me.rank, static_cast<uint32_t>(i), 5000), 0);
    }
    me.barrier();
  });
}

// A token goes round more ranks than there are cores, and everybody sleeps until it comes.
TEST_P(Contract, SleepersAreWoken) {
  run(6, [](TransportRank& me) {
    constexpr uint32_t kRounds = 100;
    const int from = (me.rank + me.size - 1) % me.size, to = (me.rank + 1) % me.size;
    for (uint32_t round = 0; round < kRounds; ++round) {
      uint32_t token = round;
      Ended receive, send;
      if (me.rank > 0 || round > 0) {
        me.transport->channel(from).post_recv(key(me.rank == 0 ? round - 1 : round), &token,
                                              sizeof token, receive);
        while (receive.times == 0)
          if (me.transport->progress() == 0) me.transport->sleep(std::chrono::seconds(5));
        EXPECT_EQ(token, me.rank == 0 ? round - 1 : round);
      }
      token = round;
      if (me.rank == me.size - 1 && round == kRounds - 1) break;  // nobody waits for it
      me.transport->channel(to).post_send(key(round), &token, sizeof token, send);
      me.wait(send);
    }
    me.barrier();
  });
}

TEST_P(Contract, AWorldOfOne) {
  run(1, [](TransportRank& me) {
    EXPECT_EQ(me.transport->progress(), 0);
    me.transport->sleep(std::chrono::microseconds(1));
    me.transport->abort();
  });
}

}  // namespace
}  // namespace unisono::testing
