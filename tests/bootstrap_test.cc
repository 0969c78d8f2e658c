// SPDX-License-Identifier: Apache-2.0
// Every bootstrap keeps the same contract.
#include "bootstrap/bootstrap.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <mutex>
#include <thread>

#include "tests/support/meeting.h"

namespace unisono {
namespace {

using namespace testing;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// One way of bringing `size` ranks together; prepares in the caller what the ranks then share.
struct Meeting {
  std::string name;
  bool processes = false;
  std::function<MakeRank(int size)> prepare;
};

MakeRank unique_id(int size) {
  const auto id = make_unique_id(Settings());
  EXPECT_TRUE(id.ok()) << id.status().message();
  return [=](int rank, Deadline deadline) {
    return make_unique_id_bootstrap(*id, size, rank, Settings(), deadline);
  };
}

// All ranks' bytes through one buffer of the test's own.
MakeRank callback(int size) {
  struct Shared {
    explicit Shared(int size) : arrived(size), left(size) {}
    std::barrier<> arrived, left;
    std::string all;
  };
  const auto shared = std::make_shared<Shared>(size);
  const auto mutex = std::make_shared<std::mutex>();
  return [=](int rank, Deadline) {
    return make_callback_bootstrap(rank, size, [=](const void* mine, void* all, size_t bytes) {
      const size_t total = bytes * static_cast<size_t>(size);
      {
        const std::lock_guard lock(*mutex);
        shared->all.resize(total);
        std::memcpy(shared->all.data() + bytes * static_cast<size_t>(rank), mine, bytes);
      }
      shared->arrived.arrive_and_wait();
      std::memcpy(all, shared->all.data(), total);
      shared->left.arrive_and_wait();
      return Status();
    });
  };
}

MakeRank threads(int size) {
  const auto made =
      std::make_shared<std::vector<std::unique_ptr<Bootstrap>>>(make_thread_bootstraps(size));
  return [=](int rank, Deadline) { return Made(std::move((*made)[static_cast<size_t>(rank)])); };
}

const std::vector<Meeting>& meetings() {
  static const std::vector<Meeting> all = {
      {"threads", false, threads},
      {"local", false, local_star},
      {"local", true, local_star},
      {"tcp4", true, [](int size) { return tcp_star("127.0.0.1", size); }},
      {"tcp6", true, [](int size) { return tcp_star("::1", size); }},
      {"unique_id", false, unique_id},
      {"unique_id", true, unique_id},
      {"callback", false, callback},
  };
  return all;
}

TEST(Bootstrap, GathersEveryRanksBytesInOrder) {
  for (const Meeting& meeting : meetings()) {
    for (const int size : {1, 2, 5, 33}) {
      SCOPED_TRACE(fmt::format("{} of {} {}", meeting.name, size,
                               meeting.processes ? "processes" : "threads"));
      const MakeRank make = meeting.prepare(size);
      const auto body = [&](int rank, Made made) {
        return gather_some(std::move(made), rank, size);
      };
      if (!meeting.processes) {
        on_threads(make, size,
                   [&](int rank, Made made) { EXPECT_EQ(body(rank, std::move(made)), ""); });
        continue;
      }
      std::vector<pid_t> children;
      for (int rank = 1; rank < size; ++rank)
        children.push_back(fork_rank(
            [&, rank] { return body(rank, make(rank, Deadline::after(kLong))).empty(); }));
      EXPECT_EQ(body(0, make(0, Deadline::after(kLong))), "");
      for (const pid_t child : children) EXPECT_EQ(exit_status(child), 0);
    }
  }
}

TEST(Bootstrap, CarriesLargeParts) {
  for (const Meeting& meeting : meetings()) {
    if (meeting.processes) continue;
    SCOPED_TRACE(meeting.name);
    const std::string mine(kMaxGatherBytes, 'x');
    on_threads(meeting.prepare(2), 2, [&](int rank, Made made) {
      ASSERT_TRUE(made.ok()) << made.status().message();
      const auto all = (*made)->all_gather(rank == 0 ? mine : "", Deadline::after(kLong));
      ASSERT_TRUE(all.ok()) << all.status().message();
      EXPECT_EQ((*all)[0], mine);
      const auto refused = (*made)->all_gather(mine + "x", Deadline::after(kLong));
      EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
    });
  }
}

// A rank that leaves, or is late, is named to all others; nobody waits longer than asked.
TEST(Bootstrap, NamesARankThatLeavesAnAllGather) {
  for (const Meeting& meeting : meetings()) {
    if (meeting.processes || meeting.name == "callback") continue;
    for (const int leaver : {0, 2}) {
      SCOPED_TRACE(fmt::format("{}, rank {} leaves", meeting.name, leaver));
      const auto start = std::chrono::steady_clock::now();
      on_threads(meeting.prepare(4), 4, [&](int rank, Made made) {
        ASSERT_TRUE(made.ok()) << made.status().message();
        ASSERT_TRUE((*made)->all_gather("", Deadline::after(kLong)).ok());
        if (rank == leaver) return made->reset();
        for (int again = 0; again < 2; ++again) {
          const auto all = (*made)->all_gather("", Deadline::after(kLong));
          EXPECT_EQ(all.status().code(), StatusCode::kPeerFailed) << all.status().message();
          EXPECT_THAT(all.status().message(), HasSubstr(fmt::format("rank {} ", leaver)));
        }
      });
      EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
    }
  }
}

TEST(Bootstrap, NamesARankThatIsLateForAnAllGather) {
  for (const Meeting& meeting : meetings()) {
    if (meeting.processes || meeting.name == "callback") continue;
    for (const int late : {0, 2}) {
      SCOPED_TRACE(fmt::format("{}, rank {} is late", meeting.name, late));
      std::barrier done(4);
      on_threads(meeting.prepare(4), 4, [&](int rank, Made made) {
        EXPECT_TRUE(made.ok()) << made.status().message();
        if (made.ok() && rank != late) {
          const auto start = std::chrono::steady_clock::now();
          // Rank 0 has more patience than the others: theirs counts.
          const auto patience = rank == 0 ? kLong : milliseconds(300);
          const auto all = (*made)->all_gather("", Deadline::after(patience));
          EXPECT_EQ(all.status().code(), StatusCode::kTimeout) << all.status().message();
          EXPECT_THAT(all.status().message(), HasSubstr(fmt::format("rank {} ", late)));
          EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
        }
        done.arrive_and_wait();
      });
    }
  }
}

TEST(UniqueId, RefusesForeignBytesAndForeignProcesses) {
  const Deadline deadline = Deadline::after(kLong);
  const auto message = [&](const UniqueId& id, int size, int rank) {
    return std::string(
        make_unique_id_bootstrap(id, size, rank, Settings(), deadline).status().message());
  };
  EXPECT_THAT(message(UniqueId{}, 2, 1), HasSubstr("128 bytes of a unique id"));
  UniqueId garbage;
  garbage.bytes.fill(0xff);
  EXPECT_THAT(message(garbage, 2, 1), HasSubstr("128 bytes of a unique id"));
  auto id = make_unique_id(Settings());
  ASSERT_TRUE(id.ok()) << id.status().message();
  EXPECT_THAT(message(*id, 2, 2), HasSubstr("got rank 2 of 2"));
  EXPECT_EQ(message(*id, 1, 0), "ok");
  EXPECT_THAT(message(*id, 1, 0), HasSubstr("an id serves once"));
}

}  // namespace
}  // namespace unisono
