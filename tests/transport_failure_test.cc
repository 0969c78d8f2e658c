// SPDX-License-Identifier: Apache-2.0
// The transport contract of a bad day: mismatches, ranks that leave, abort.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <deque>

#include "tests/support/contract.h"
#include "tests/support/ranks.h"
#include "transports/registry.h"

namespace unisono::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Ways, Contract, ::testing::ValuesIn(ways()),
                         [](const auto& info) { return info.param.name; });

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
      const bool few_large = round % 2 == 1;
      const uint32_t kMessages = few_large ? 2 : 20;
      const size_t kBytes = few_large ? 8 << 20 : 60000;
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
          // Over a network, what breaks off in the middle of a long message may only look like a death.
          EXPECT_EQ(post.ended.status.code(), StatusCode::kPeerFailed);
          EXPECT_TRUE(post.ended.status.message().starts_with("rank 0 "))
              << post.ended.status.message();
          continue;
        }
        const Data expected = payload(0, me.rank, post.message, kBytes);
        const bool is_view = post.message % 2 == 0;
        expect_payload(is_view ? post.ended.data : post.data.data(), expected, post.message);
        if (is_view) me.transport->channel(0).release(post.ended);
      }
    });
  }
}

// Whatever a post to the dead rank was waiting for.
void die(TransportRank& me) {
  std::vector<std::byte> large(64 << 20), landing(1 << 20);
  Channel& channel = me.transport->channel(1 - me.rank);
  Ended rendezvous, unmatched, view, after;
  if (me.rank == 1) {
    me.barrier();
    raise(SIGKILL);
  }
  channel.post_send(key(0), large.data(), large.size(), rendezvous);
  channel.post_recv(key(1), landing.data(), landing.size(), unmatched);
  channel.post_view(key(2), 4096, view);
  me.barrier();
  const Deadline deadline = Deadline::after(std::chrono::seconds(5));
  for (const Ended* post : {&rendezvous, &unmatched, &view}) {
    me.wait(*post);
    EXPECT_EQ(post->times, 1);
    EXPECT_EQ(post->status.code(), StatusCode::kPeerFailed) << post->status.message();
    EXPECT_NE(post->status.message().find("rank 1 "), std::string_view::npos)
        << post->status.message();
  }
  channel.post_send(key(3), large.data(), 8, after);
  me.wait(after);
  EXPECT_EQ(after.status.code(), StatusCode::kPeerFailed);
  EXPECT_FALSE(deadline.passed());
}

TEST(Death, EndsEveryPostAndNamesTheRank) {
  for (const std::string& transport : built_transports()) {
    SCOPED_TRACE(transport);
    const auto statuses =
        run_transport_processes(2, find_transport(transport)->create, die);
    EXPECT_EQ(statuses[0], 0);
    EXPECT_TRUE(WIFSIGNALED(statuses[1]));
  }
}

}  // namespace
}  // namespace unisono::testing
