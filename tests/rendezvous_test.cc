// SPDX-License-Identifier: Apache-2.0
// The star in bad company: ranks that are missing or die, and strangers of every kind.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "bootstrap/star.h"
#include "bootstrap/token.h"
#include "bootstrap/wire.h"
#include "tests/support/caught.h"
#include "tests/support/meeting.h"
#include "tests/support/strangers.h"

namespace unisono {
namespace {

using namespace testing;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Star, NamesRanksThatNeverCome) {
  for (const bool hub_missing : {false, true}) {
    SCOPED_TRACE(hub_missing);
    const MakeRank make = local_star(4);
    on_threads(
        [&](int rank, Deadline deadline) -> Made {
          if (hub_missing ? rank == 0 : rank % 2 != 0)
            return Status(StatusCode::kAborted, "absent");
          return make(rank, deadline);
        },
        4,
        [&](int, Made made) {
          ASSERT_FALSE(made.ok());
          if (made.status().code() == StatusCode::kAborted) return;
          EXPECT_EQ(made.status().code(), StatusCode::kTimeout);
          EXPECT_THAT(made.status().message(),
                      HasSubstr(hub_missing ? "rank 0 " : "ranks 1, 3 of 4"));
        },
        milliseconds(400));
  }
}

TEST(Star, SaysWhoIsMissingWhileItWaits) {
  const std::string token = random_token();
  const Endpoint where = local_endpoint(token);
  Caught caught;
  std::thread rank1(
      [&] { EXPECT_FALSE(join_star(star(1, 4, token, where), Deadline::after(kLong)).ok()); });
  StarOptions options = star(0, 4, token, where);
  options.listeners.push_back(listen_on(where).take());
  options.report_after = milliseconds(200);
  const auto made = join_star(std::move(options), Deadline::after(milliseconds(700)));
  rank1.join();
  EXPECT_THAT(made.status().message(), HasSubstr("ranks 2, 3 of 4 missing after 0.7 s"));
  EXPECT_THAT(caught.text(), HasSubstr("unisono rank 0: waiting for the job's ranks: ranks 2, 3 of "
                                       "4 missing after 0.2 s\n"));
}

TEST(Star, AKilledProcessIsNamedPromptly) {
  const MakeRank make = local_star(3);
  const auto gather_twice = [&](int rank) -> std::string {
    auto made = make(rank, Deadline::after(kLong));
    if (!made.ok()) return std::string(made.status().message());
    const Status first = (*made)->all_gather("", Deadline::after(kLong)).status();
    if (!first.ok()) return std::string(first.message());
    if (rank == 2) raise(SIGKILL);
    const Status second = (*made)->all_gather("", Deadline::after(kLong)).status();
    return fmt::format("{}: {}", name_of(second.code()), second.message());
  };
  constexpr std::string_view kExpected = "peer failed: all_gather: rank 2 left";
  const auto start = std::chrono::steady_clock::now();
  std::vector<pid_t> children;
  for (int rank = 1; rank < 3; ++rank)
    children.push_back(fork_rank([&, rank] { return gather_twice(rank).starts_with(kExpected); }));
  EXPECT_THAT(gather_twice(0), StartsWith(std::string(kExpected)));
  EXPECT_EQ(exit_status(children[0]), 0);
  EXPECT_EQ(exit_status(children[1]), 128 + SIGKILL);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
}

std::string hello(const std::string& token, int rank, int size) {
  Hello hello;
  hello.token = token;
  hello.rank = rank;
  hello.size = size;
  return encode(hello);
}

// A rank that was ready and goes ends the job at once: it cannot be waited for.
TEST(Star, ARankThatDiesWhileOthersAreMissingIsNamed) {
  const std::string token = random_token();
  const Endpoint where = local_endpoint(token);
  StarOptions options = star(0, 4, token, where);
  options.listeners.push_back(listen_on(where).take());
  Made rank0 = Status(StatusCode::kInternal, "not run");
  std::thread hub([&] { rank0 = join_star(std::move(options), Deadline::after(kLong)); });
  const auto come = [&](int rank) {
    Socket socket = stranger(where, hello(token, rank, 4));
    std::string welcome(kFrameHeaderBytes + kTokenBytes, '\0');
    EXPECT_EQ(recv(socket.descriptor(), welcome.data(), welcome.size(), MSG_WAITALL),
              static_cast<ssize_t>(welcome.size()));
    const Bytes ready = encode(Frame{{FrameKind::kReady, 0, 0, UINT64_MAX}, {}});
    send(socket.descriptor(), ready->data(), ready->size(), MSG_NOSIGNAL);
    return socket;
  };
  const Socket rank1 = come(1);
  come(2);
  hub.join();
  EXPECT_EQ(rank0.status().code(), StatusCode::kPeerFailed);
  EXPECT_THAT(rank0.status().message(), HasSubstr("rank 2 left"));
  rank0 = Status();  // hangs up
  EXPECT_THAT(hear_out(rank1, 10'000), HasSubstr("rank 2 left"));
}

// Every kind of bad company at once, before and between the ranks, and a flood of the silent kind.
TEST(Star, DropsStrangersAndGoesOn) {
  for (const char* host : {"local", "127.0.0.1", "::1"}) {
    SCOPED_TRACE(host);
    const std::string token = random_token();
    const Endpoint where = host == std::string_view("local")
                               ? local_endpoint(token)
                               : literal_endpoint(host, free_port(host));
    auto listener = listen_on(where);
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    const std::string good = hello(token, 1, 3);
    std::string wrong_token = good, wrong_version = good;
    ++wrong_token[kTokenBytes - 1];
    ++wrong_version[kTokenBytes + 4];
    Frame huge{{FrameKind::kReady}, {}};
    std::string oversized = good + *encode(huge);
    oversized[good.size() + 15] = '\x7f';  // the top byte of the length
    std::vector<Socket> company;
    for (const std::string& says :
         {std::string(),
          std::string("GET / HTTP/1.1\r\nHost: example\r\n\r\n long enough to be a hello"),
          wrong_token, wrong_version, good.substr(0, good.size() / 2), good, good + "garbage",
          oversized, hello(token, 1, 4), hello(token, 3, 3), hello(token, -1, 3),
          hello(token, 0, 3), std::string(1 << 16, 'x')})
      company.push_back(stranger(where, says));
    for (int i = 0; i < 200; ++i) company.push_back(stranger(where, ""));

    std::thread rank0([&] {
      StarOptions options = star(0, 3, token, where);
      options.log = Log(Settings(), 0);
      options.listeners.push_back(listener.take());
      EXPECT_EQ(gather_some(join_star(std::move(options), Deadline::after(kLong)), 0, 3), "");
    });
    std::vector<std::thread> others;
    for (int rank = 1; rank < 3; ++rank)
      others.emplace_back([&, rank] {
        EXPECT_EQ(
            gather_some(join_star(star(rank, 3, token, where), Deadline::after(kLong)), rank, 3),
            "");
      });
    rank0.join();
    for (std::thread& other : others) other.join();
    EXPECT_FALSE(stranger(where, good).valid()) << "the listener outlived the join";
  }
}

TEST(Star, TellsAMisfitWhyAndDropsASlowStranger) {
  const std::string token = random_token();
  const Endpoint where = local_endpoint(token);
  StarOptions options = star(0, 2, token, where);
  options.listeners.push_back(listen_on(where).take());
  options.stranger_time = milliseconds(100);
  std::thread rank0([&] {
    EXPECT_EQ(gather_some(join_star(std::move(options), Deadline::after(kLong)), 0, 2), "");
  });
  EXPECT_EQ(hear_out(stranger(where, ""), 10'000), "");
  EXPECT_EQ(hear_out(stranger(where, hello(random_token(), 1, 2)), 10'000), "");
  for (const auto& [rank, size] : {std::pair{1, 3}, std::pair{7, 8}}) {
    const auto made = join_star(star(rank, size, token, where), Deadline::after(kLong));
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument) << made.status().message();
    EXPECT_THAT(made.status().message(), HasSubstr("expected a world of 2 ranks"));
  }
  EXPECT_EQ(gather_some(join_star(star(1, 2, token, where), Deadline::after(kLong)), 1, 2), "");
  rank0.join();
}

TEST(Star, ASecondProcessWithTheSameRankIsToldSo) {
  const MakeRank make = local_star(3);
  std::atomic<int> refused = 0;
  std::vector<std::thread> twins;
  std::thread rank0([&] { EXPECT_EQ(gather_some(make(0, Deadline::after(kLong)), 0, 3), ""); });
  std::barrier one_refused(2);
  for (int twin = 0; twin < 2; ++twin)
    twins.emplace_back([&] {
      auto made = make(1, Deadline::after(kLong));
      if (made.ok()) {
        EXPECT_EQ(gather_some(std::move(made), 1, 3), "");
        return;
      }
      EXPECT_THAT(made.status().message(), HasSubstr("rank 1 is there already"));
      ++refused;
      one_refused.arrive_and_wait();
    });
  one_refused.arrive_and_wait();
  EXPECT_EQ(gather_some(make(2, Deadline::after(kLong)), 2, 3), "");
  for (std::thread& twin : twins) twin.join();
  rank0.join();
  EXPECT_EQ(refused, 1);
}

// A listener that does not know the job's token is not rank 0, whatever it says.
TEST(Star, AFalseRank0IsNotBelieved) {
  const std::string token = random_token();
  const Endpoint where = literal_endpoint("127.0.0.1", free_port("127.0.0.1"));
  const auto listener = listen_on(where);
  ASSERT_TRUE(listener.ok());
  std::thread impostor([&] {
    pollfd ready{listener->descriptor(), POLLIN, 0};
    if (poll(&ready, 1, 10'000) != 1) return;
    const Socket victim = accept_from(listener->descriptor());
    const Bytes welcome = encode(Frame{{FrameKind::kWelcome}, random_token()});
    send(victim.descriptor(), welcome->data(), welcome->size(), MSG_NOSIGNAL);
  });
  const auto made = join_star(star(1, 2, token, where), Deadline::after(milliseconds(500)));
  impostor.join();
  EXPECT_EQ(made.status().code(), StatusCode::kTimeout);
  EXPECT_THAT(made.status().message(), HasSubstr("rank 0 missing (127.0.0.1"));
}

}  // namespace
}  // namespace unisono
