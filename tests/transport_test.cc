// SPDX-License-Identifier: Apache-2.0
// The transport contract, over every transport and every way to be a rank.
#include "transport/transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/support/transport_world.h"
#include "transports/registry.h"
#include "transports/simulated/network.h"

namespace unisono::testing {
namespace {

struct Way {
  std::string name;
  std::function<void(int size, const Body& body)> run;
};

void run_processes_well(int size, const Create& create, const Body& body) {
  for (const int status : run_transport_processes(size, create, body)) EXPECT_EQ(status, 0);
}

// With little staging every pair has a few KiB: fragments, full rings, messages set aside.
Create with_little_staging(const TransportRow& row) {
  return [&row](TransportContext context) {
    static const Settings settings = [] {
      Settings little;
      EXPECT_TRUE(little.set("UNISONO_STAGING_BYTES", "64K", "test").ok());
      return little;
    }();
    context.settings = &settings;
    return row.create(context);
  };
}

// A network is one communicator: a rank's n-th transport is in the n-th.
void run_simulated(int size, const SimulatedOptions& options, const Body& body) {
  const std::vector<std::shared_ptr<SimulatedNetwork>> networks{
      SimulatedNetwork::create(size, options), SimulatedNetwork::create(size, options)};
  std::vector<size_t> made(static_cast<size_t>(size));  // by rank; each touches its own
  run_transport_threads(
      size,
      [&](const TransportContext& context) -> Result<std::unique_ptr<Transport>> {
        return networks.at(made[static_cast<size_t>(context.rank)]++)->transport(context.rank);
      },
      body);
}

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const TransportRow& row : transports()) {
    for (const bool little : {false, true}) {
      const std::string name = std::string(row.name) + (little ? "_little" : "");
      const Create create = little ? with_little_staging(row) : Create(row.create);
      all.push_back({name + "_threads", [create](int size, const Body& body) {
                       run_transport_threads(size, create, body);
                     }});
      all.push_back({name + "_processes", [create](int size, const Body& body) {
                       run_processes_well(size, create, body);
                     }});
    }
  }
  for (const bool rendezvous : {true, false})
    all.push_back({rendezvous ? "simulated_rendezvous" : "simulated_eager",
                   [rendezvous](int size, const Body& body) {
                     run_simulated(size, {.seed = 7, .rendezvous = rendezvous}, body);
                   }});
  return all;
}

class Contract : public ::testing::TestWithParam<Way> {
 protected:
  void run(int size, const Body& body) { GetParam().run(size, body); }
};

INSTANTIATE_TEST_SUITE_P(Ways, Contract, ::testing::ValuesIn(ways()),
                         [](const auto& info) { return info.param.name; });

using Data = std::vector<std::byte>;

// What `from` sends to `to` as its message of that number. Never the same for two messages.
Data payload(int from, int to, uint32_t message, size_t bytes) {
  Data data(bytes);
  std::minstd_rand random(static_cast<unsigned>(from * 64 + to + 1) * 1009u + message);
  const auto first = random();
  for (size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>((first + i * 131 + (i >> 8) * 7) & 0xff);
  return data;
}

Key key(uint32_t message, uint32_t sequence = 1, uint32_t slice = 0) {
  return {sequence, message, slice, 0xfeed};
}

// A message posted by a test: its buffer and its end.
struct Post {
  uint32_t message;
  Data data;
  Ended ended;
};

void expect_payload(const void* data, const Data& expected, uint32_t message) {
  if (expected.empty()) return;
  EXPECT_EQ(std::memcmp(data, expected.data(), expected.size()), 0)
      << "message " << message << " of " << expected.size() << " bytes";
}

// Waits for a view, checks it and gives it back.
void check_view(TransportRank& me, int peer, Ended& view, const Data& expected, uint32_t message) {
  me.wait(view);
  ASSERT_TRUE(view.status.ok()) << view.status.message();
  ASSERT_TRUE(start_reading(view));
  expect_payload(view.data, expected, message);
  me.transport->channel(peer).release(view);
}

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

struct MismatchCase {
  uint32_t signature;
  size_t sent, expected;
  std::string message;
};

// Rank 0 expects something else than rank 1 sends; both learn it, whether before or after the send.
void mismatch(TransportRank& me, const MismatchCase& c) {
  Channel& channel = me.transport->channel(1 - me.rank);
  Data data(std::max(c.sent, c.expected));
  std::deque<Ended> ends;
  if (me.rank == 0) {
    channel.post_recv({7, 3, 0, 0xfeed}, data.data(), c.expected, ends.emplace_back());
    me.wait(ends[0]);
  } else {
    channel.post_send({7, 3, 0, c.signature}, data.data(), c.sent, ends.emplace_back());
    // The send may have ended well; a later one will not.
    me.wait_until(
        [&] {
          if (ends.back().times > 0 && ends.back().status.ok())
            channel.post_send(key(1000 + static_cast<uint32_t>(ends.size()), 8), data.data(), 8,
                              ends.emplace_back());
          return ends.back().times > 0 && !ends.back().status.ok();
        },
        "the mismatch");
  }
  EXPECT_EQ(ends.back().status.code(), StatusCode::kMismatch);
  EXPECT_NE(ends.back().status.message().find(c.message), std::string_view::npos)
      << ends.back().status.message();
  Ended later;
  channel.post_recv(key(2000), data.data(), 8, later);
  me.wait(later);
  EXPECT_EQ(later.status.code(), StatusCode::kMismatch);
  me.barrier();
}

TEST_P(Contract, MismatchIsKnownToBoth) {
  const MismatchCase cases[] = {
      {0xfeed, 4096, 512, "message 3 of call 7: rank 1 sent 4096 bytes, rank 0 expected 512"},
      {0xfeed, 1 << 20, 512, "message 3 of call 7: rank 1 sent 1048576 bytes, rank 0 expected 512"},
      {0xfeed, 0, 512, "message 3 of call 7: rank 1 sent 0 bytes, rank 0 expected 512"},
      {0xbeef, 512, 512, "message 3 of call 7: rank 1 sent "}};
  for (const MismatchCase& c : cases) run(2, [&c](TransportRank& me) { mismatch(me, c); });
}

// Who leaves in good order leaves its messages behind; nothing else comes from it.
TEST_P(Contract, WhoLeavesIsNamed) {
  run(3, [](TransportRank& me) {
    Data data(8);
    Ended first, second, third, fourth;
    if (me.rank == 1) {
      const Data out = payload(1, 0, 0, 8);
      for (const int peer : {0, 2}) {
        Ended& send = peer == 0 ? first : second;
        me.transport->channel(peer).post_send(key(0), out.data(), 8, send);
      }
      me.wait(first);
      me.wait(second);
      me.transport.reset();
      return;
    }
    Channel& channel = me.transport->channel(1);
    channel.post_recv(key(9), data.data(), 8, second);
    Data received(8);
    channel.post_recv(key(0), received.data(), 8, first);
    me.wait(first);
    me.wait(second);
    EXPECT_TRUE(first.status.ok()) << first.status.message();
    expect_payload(received.data(), payload(1, 0, 0, 8), 0);
    EXPECT_EQ(second.status.code(), StatusCode::kPeerFailed);
    EXPECT_EQ(second.status.message(), "rank 1 left");
    channel.post_send(key(1), data.data(), 8, third);
    channel.post_view(key(2), 8, fourth);
    me.wait(third);
    me.wait(fourth);
    EXPECT_EQ(third.status.message(), "rank 1 left");
    EXPECT_EQ(fourth.status.message(), "rank 1 left");
  });
}

// After abort() the aborter's buffers are its own again, while peers are in the midst of receiving:
// what they get is whole or is an error. (ThreadSanitizer sees it when it is not so.)
TEST_P(Contract, AbortWhilePeersRead) {
  for (int round = 0; round < 8; ++round) {
    run(3, [round](TransportRank& me) {
      constexpr uint32_t kMessages = 20;
      constexpr size_t kBytes = 60000;
      std::deque<Post> posts;
      if (me.rank == 0) {
        for (int peer = 1; peer < me.size; ++peer)
          for (uint32_t m = 0; m < kMessages; ++m) {
            Post& post = posts.emplace_back(m, payload(0, peer, m, kBytes), Ended());
            me.transport->channel(peer).post_send(key(m), post.data.data(), kBytes, post.ended);
          }
        for (int turn = 0; turn < round * 5; ++turn) me.transport->progress();
        me.transport->abort();
        for (Post& post : posts) {
          EXPECT_EQ(post.ended.times, 1);
          if (!post.ended.status.ok()) {
            EXPECT_EQ(post.ended.status.code(), StatusCode::kAborted);
          }
          std::ranges::fill(post.data, std::byte{0xee});
        }
        Ended late;
        me.transport->channel(1).post_recv(key(0), posts[0].data.data(), 8, late);
        me.wait(late);
        EXPECT_EQ(late.status.code(), StatusCode::kAborted);
        return;
      }
      for (uint32_t m = 0; m < kMessages; ++m) {
        Post& post = posts.emplace_back(m, Data(kBytes), Ended());
        Channel& channel = me.transport->channel(0);
        if (m % 2 == 0) {
          channel.post_view(key(m), kBytes, post.ended);
        } else {
          channel.post_recv(key(m), post.data.data(), kBytes, post.ended);
        }
      }
      for (Post& post : posts) {
        me.wait(post.ended);
        if (!post.ended.status.ok()) {
          EXPECT_EQ(post.ended.status.message(), "rank 0 left");
          continue;
        }
        const Data expected = payload(0, me.rank, post.message, kBytes);
        const bool is_view = post.message % 2 == 0;
        if (!is_view) expect_payload(post.data.data(), expected, post.message);
        if (is_view && start_reading(post.ended))
          expect_payload(post.ended.data, expected, post.message);
        if (is_view) me.transport->channel(0).release(post.ended);
      }
    });
  }
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
