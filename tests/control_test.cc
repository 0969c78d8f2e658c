// SPDX-License-Identifier: Apache-2.0
// The control channel by itself: what it decides, and that it leaves nothing behind.
#include "bootstrap/control.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <filesystem>
#include <random>
#include <thread>

#include "tests/support/meeting.h"

namespace unisono {
namespace {

using namespace testing;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

using Controls = Result<std::unique_ptr<Control>>;

// Two different statements contradict each other.
Status compare_texts(std::span<const std::string> statements) {
  const std::string* first = nullptr;
  for (const std::string& statement : statements) {
    if (first != nullptr && !statement.empty() && statement != *first)
      return Status(StatusCode::kMismatch, *first + " against " + statement);
    if (first == nullptr && !statement.empty()) first = &statement;
  }
  return Status();
}

Controls turn_over(Made made) {
  if (!made.ok()) return made.status();
  return (*made)->turn_over({.compare = compare_texts, .phase = [] { return "busy"; }}, Settings(),
                            Deadline::after(kLong));
}

MakeRank thread_ranks(int size) {
  const auto made =
      std::make_shared<std::vector<std::unique_ptr<Bootstrap>>>(make_thread_bootstraps(size));
  return [=](int rank, Deadline) { return Made(std::move((*made)[static_cast<size_t>(rank)])); };
}

MakeRank unique_id(int size) {
  const auto id = make_unique_id(Settings());
  EXPECT_TRUE(id.ok()) << id.status().message();
  return [=](int rank, Deadline deadline) {
    return make_unique_id_bootstrap(*id, size, rank, Settings(), deadline);
  };
}

struct Way {
  const char* name;
  MakeRank (*make)(int size);
};
constexpr Way kWays[] = {{"threads", thread_ranks}, {"local", local_star}, {"tcp", unique_id}};

// Runs `body` on every rank of every way.
void on_controls(int size, const std::function<void(int, Control&)>& body) {
  for (const Way& way : kWays) {
    SCOPED_TRACE(way.name);
    on_threads(way.make(size), size, [&](int rank, Made made) {
      auto control = turn_over(std::move(made));
      ASSERT_TRUE(control.ok()) << control.status().message();
      body(rank, **control);
    });
  }
}

Status await_verdict(Control& control) {
  const Deadline deadline = Deadline::after(seconds(10));
  while ((control.news() & Control::kVerdict) == 0 && !deadline.passed()) std::this_thread::yield();
  return control.verdict();
}

TEST(Control, GathersUntilARankHasLeft) {
  on_controls(4, [](int rank, Control& control) {
    for (int round = 0; round < 3; ++round) {
      const auto all =
          control.all_gather(fmt::format("{}.{}", rank, round), Deadline::after(kLong));
      ASSERT_TRUE(all.ok()) << all.status().message();
      for (int peer = 0; peer < 4; ++peer)
        EXPECT_EQ((*all)[static_cast<size_t>(peer)], fmt::format("{}.{}", peer, round));
    }
    if (rank == 2) return control.leave({});
    const auto all = control.all_gather("", Deadline::after(kLong));
    EXPECT_EQ(all.status().code(), StatusCode::kPeerFailed);
    EXPECT_THAT(all.status().message(), HasSubstr("rank 2 left"));
    control.leave({});
  });
}

TEST(Control, NamesWhoIsLateForAnAllGather) {
  for (const int late : {0, 1}) {
    std::barrier end(3);
    on_controls(3, [&](int rank, Control& control) {
      if (rank != late) {
        const auto all = control.all_gather("", Deadline::after(milliseconds(100)));
        EXPECT_EQ(all.status().code(), StatusCode::kTimeout) << all.status().message();
        EXPECT_THAT(all.status().message(), HasSubstr(fmt::format("rank {} ", late)));
      }
      end.arrive_and_wait();
      control.leave({});
    });
  }
}

TEST(Control, TheFirstVerdictIsEverybodys) {
  std::barrier end(3);
  on_controls(3, [&](int rank, Control& control) {
    if (rank != 0) control.fail(Status(StatusCode::kSystem, fmt::format("trouble {}", rank)));
    const Status verdict = await_verdict(control);
    EXPECT_EQ(verdict.code(), StatusCode::kSystem);
    const auto all = control.all_gather("", Deadline::after(kLong));
    EXPECT_EQ(all.status().message(), verdict.message());
    EXPECT_THAT(verdict.message(), ::testing::MatchesRegex("rank (1: trouble 1|2: trouble 2)"));
    EXPECT_EQ(control.agree(Status(StatusCode::kTimeout, "late"), {}).message(), verdict.message());
    end.arrive_and_wait();
    control.leave({});
  });
}

TEST(Control, AConsequenceWaitsForItsCause) {
  std::barrier end(3);
  on_controls(3, [&](int rank, Control& control) {
    if (rank == 2) {
      while (control.news() == 0) std::this_thread::yield();
      control.fail(Status(StatusCode::kPeerFailed, "the cause"));
    } else {
      const Status agreed = control.agree(Status(StatusCode::kPeerFailed, "a consequence"), {});
      EXPECT_EQ(agreed.message(), "rank 2: the cause");
    }
    end.arrive_and_wait();
    control.leave({});
  });
}

TEST(Control, ASuspicionAloneBecomesTheVerdict) {
  std::barrier end(3);
  on_controls(3, [&](int rank, Control& control) {
    if (rank == 1) {
      EXPECT_EQ(control.agree(Status(StatusCode::kPeerFailed, "no path"), {}).message(),
                "rank 1: no path");
    }
    EXPECT_EQ(await_verdict(control).message(), "rank 1: no path");
    end.arrive_and_wait();
    control.leave({});
  });
}

TEST(Control, StatementsThatContradictAreTheVerdict) {
  for (const int odd : {0, 2}) {
    std::barrier end(3);
    on_controls(3, [&](int rank, Control& control) {
      control.state(rank == odd ? "odd" : "usual");
      const Status verdict = await_verdict(control);
      EXPECT_EQ(verdict.code(), StatusCode::kMismatch);
      EXPECT_THAT(verdict.message(), HasSubstr("odd"));
      EXPECT_THAT(verdict.message(), HasSubstr("usual"));
      end.arrive_and_wait();
      control.leave({});
    });
  }
}

// Also when rank 0 is the one that is gone: its last words are enough.
TEST(Control, WhatALeaverSaidStillCounts) {
  for (const int leaver : {0, 1}) {
    on_controls(3, [&](int rank, Control& control) {
      if (rank == leaver) return control.leave("odd");
      const Status cause(StatusCode::kPeerFailed, "it left");
      EXPECT_EQ(control.agree(cause, "usual").code(), StatusCode::kMismatch);
      control.leave({});
    });
  }
}

TEST(Control, WhoGoesWithoutAWordHasDied) {
  for (const int dead : {0, 1}) {
    on_controls(3, [&](int rank, Control& control) {
      if (rank == dead) return;
      const Status verdict = await_verdict(control);
      EXPECT_EQ(verdict.code(), StatusCode::kPeerFailed);
      EXPECT_THAT(verdict.message(), HasSubstr(fmt::format("rank {} died", dead)));
      control.leave({});
    });
  }
}

// A star of this process's own threads.
bool star_works() {
#ifdef __SANITIZE_THREAD__
  return true;  // TSan cannot start a thread in the child of a process that has several
#else
  std::atomic<int> good = 0;
  on_threads(local_star(2), 2, [&](int, Made made) {
    auto control = turn_over(std::move(made));
    good += control.ok() && (*control)->all_gather("", Deadline::after(kLong)).ok();
    if (control.ok()) (*control)->leave({});
  });
  return good == 2;
#endif
}

// A forked child has the connections, but not the thread: it does nothing with them, and has a
// watcher of its own.
TEST(Control, AForkedChildChangesNothing) {
  std::barrier ready(2);
  on_threads(local_star(2), 2, [&](int rank, Made made) {
    auto control = turn_over(std::move(made));
    ASSERT_TRUE(control.ok()) << control.status().message();
    ready.arrive_and_wait();
    if (rank == 1) {
      EXPECT_EQ(exit_status(fork_rank([&] {
                  (*control)->fail(Status(StatusCode::kSystem, "a child's"));
                  const bool refused = !(*control)->all_gather("", Deadline::after(kLong)).ok();
                  (*control)->leave("a child's");
                  control->reset();
                  return refused && star_works();
                })),
                0);
    }
    EXPECT_TRUE((*control)->all_gather("", Deadline::after(kLong)).ok());
    EXPECT_TRUE((*control)->verdict().ok());
    (*control)->leave({});
  });
}

// ---- What is left behind ----

size_t entries_of(const char* folder) {
  const auto all = std::filesystem::directory_iterator(folder);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

void cycle(unsigned seed) {
  std::mt19937 random(seed);
  on_threads(random() % 2 == 0 ? local_star(3) : unique_id(3), 3, [&](int rank, Made made) {
    auto control = turn_over(std::move(made));
    // One in five dies, so another may not even get as far.
    if (control.ok() && (seed + static_cast<unsigned>(rank)) % 5 != 0) (*control)->leave({});
  });
}

TEST(Leftovers, NoThreadAndNoDescriptorAfter100Cycles) {
  cycle(0);
  const size_t descriptors = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
  for (unsigned i = 0; i < 100; ++i) cycle(i);
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
}

TEST(Leftovers, NoneFromSeveralThreadsAtOnce) {
  cycle(0);
  const size_t descriptors = entries_of("/proc/self/fd");
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread)
    threads.emplace_back([=] {
      for (unsigned i = 0; i < 10; ++i) cycle(thread * 100 + i);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
}

TEST(Leftovers, OneThreadServesAllCommunicators) {
  const size_t before = entries_of("/proc/self/task");
  std::barrier made(6), counted(6);
  std::vector<std::thread> jobs;
  for (int job = 0; job < 2; ++job)
    jobs.emplace_back([&] {
      on_threads(local_star(3), 3, [&](int, Made mine) {
        auto control = turn_over(std::move(mine));
        made.arrive_and_wait();
        // Two jobs, six ranks, and the watcher.
        EXPECT_EQ(entries_of("/proc/self/task"), before + 2 + 6 + 1);
        counted.arrive_and_wait();
        if (control.ok()) (*control)->leave({});
      });
    });
  for (std::thread& job : jobs) job.join();
}

}  // namespace
}  // namespace unisono
