// SPDX-License-Identifier: Apache-2.0
// The communicator beyond right sums: started calls, several communicators, bad calls, stuck and dead ranks.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "algorithms/registry.h"
#include "tests/support/ranks.h"
#include "tools/check.h"

namespace unisono {
namespace {

using std::chrono::seconds;

testing::RankOptions with(std::initializer_list<std::pair<std::string_view, std::string_view>> settings) {
  testing::RankOptions options;
  for (const auto& [name, value] : settings) {
    const Status status = options.settings.set(name, value, "options");
    EXPECT_TRUE(status.ok()) << status.message();
  }
  return options;
}

// The sum of every rank's number + 1, in all elements, through one blocking call.
void expect_sum(Communicator& communicator, size_t count, const std::optional<Choice>& choice = {}) {
  std::vector<int64_t> values(count, communicator.rank() + 1);
  const Status status = communicator.all_reduce({.input = values.data(),
                                                 .output = values.data(),
                                                 .count = count,
                                                 .type = DataType::kInt64,
                                                 .choice = choice});
  ASSERT_TRUE(status.ok()) << status.message();
  const int64_t p = communicator.size();
  ASSERT_EQ(values, std::vector<int64_t>(count, p * (p + 1) / 2));
}

class Progress : public ::testing::TestWithParam<const char*> {};

TEST_P(Progress, StartedCallsEndInAnyOrder) {
  constexpr size_t kCalls = 6;
  constexpr size_t kCounts[kCalls] = {1, 50000, 3, 1000, 200000, 0};
  testing::run_threads(
      4,
      [&](Communicator& communicator) {
        std::mt19937 random(static_cast<unsigned>(communicator.rank()));  // another order on every rank
        for (const Algorithm* algorithm : algorithms()) {
          std::vector<std::vector<int32_t>> values(kCalls);
          std::vector<std::pair<size_t, Request*>> requests;
          for (size_t i = 0; i < kCalls; ++i) {
            values[i].assign(kCounts[i], communicator.rank() + static_cast<int>(i));
            auto request = communicator.start({.input = values[i].data(),
                                               .output = values[i].data(),
                                               .count = kCounts[i],
                                               .type = DataType::kInt32,
                                               .choice = Choice{.algorithm = std::string(algorithm->name)}});
            ASSERT_TRUE(request.ok()) << request.status().message();
            requests.emplace_back(i, *request);
          }
          std::ranges::shuffle(requests, random);
          for (const auto& [i, request] : requests) {
            if (random() % 2 == 0) {
              Status status = communicator.test(request);
              while (status.code() == StatusCode::kInProgress) status = communicator.test(request);
              ASSERT_TRUE(status.ok()) << status.message();
            } else {
              const Status status = communicator.wait(request);
              ASSERT_TRUE(status.ok()) << status.message();
            }
            EXPECT_EQ(values[i], std::vector<int32_t>(kCounts[i], 6 + 4 * static_cast<int>(i)));
            EXPECT_EQ(communicator.wait(request).code(), StatusCode::kInvalidArgument) << "ended twice";
          }
        }
      },
      with({{"UNISONO_PROGRESS", GetParam()}}));
}

INSTANTIATE_TEST_SUITE_P(Who, Progress, ::testing::Values("caller", "thread"));

// More started calls of other shapes than plans are kept, and then one more plan: what the ranks tell each other of
// their last calls still exists.
TEST(Communicator, ManyShapesAtOnce) {
  testing::run_threads(2, [](Communicator& communicator) {
    constexpr size_t kCalls = 140;
    std::vector<float> values(kCalls * (kCalls + 1));
    std::vector<Request*> requests;
    for (size_t count = 1; count <= kCalls; ++count) {
      float* const data = &values[count * (kCalls + 1) - kCalls - 1];
      auto request = communicator.start({.input = data, .output = data, .count = count});
      ASSERT_TRUE(request.ok()) << request.status().message();
      requests.push_back(*request);
    }
    ASSERT_TRUE(communicator.wait(requests.back()).ok());
    requests.pop_back();
    expect_sum(communicator, 1000);
    ASSERT_TRUE(communicator.all_gather("").ok());  // tells of the last calls
    for (Request* const request : requests) ASSERT_TRUE(communicator.wait(request).ok());
    expect_sum(communicator, 1001);
  });
}

TEST(Communicator, SeveralSideBySide) {
  std::vector<std::thread> jobs;
  for (int job = 0; job < 3; ++job) {
    jobs.emplace_back([] {
      testing::run_threads(3, [](Communicator& communicator) {
        for (size_t count = 1; count < 3000; count = count * 3 + 1) expect_sum(communicator, count);
      });
    });
  }
  for (std::thread& job : jobs) job.join();
}

TEST(Communicator, CallersMistakesChangeNothing) {
  testing::run_threads(2, [](Communicator& communicator) {
    float values[8] = {};
    const struct {
      AllReduceCall call;
      StatusCode code;
      const char* text;
    } cases[] = {
        {{.input = nullptr, .output = values, .count = 1}, StatusCode::kInvalidArgument, "input is null"},
        {{.input = values, .output = nullptr, .count = 1}, StatusCode::kInvalidArgument, "output is null"},
        {{.input = values, .output = values + 1, .count = 4}, StatusCode::kInvalidArgument, "overlap by 12 bytes"},
        {{.input = values, .output = values, .count = SIZE_MAX / 2}, StatusCode::kInvalidArgument, "more than memory"},
        {{.input = values, .output = values, .count = 1, .choice = Choice{.algorithm = "rong"}},
         StatusCode::kUnsupported, "rong"},
    };
    for (const auto& c : cases) {
      const Status status = communicator.all_reduce(c.call);
      EXPECT_EQ(status.code(), c.code) << status.message();
      EXPECT_NE(status.message().find(c.text), std::string_view::npos) << status.message();
    }
    expect_sum(communicator, 100);
  });
}

TEST(Communicator, DedicatedServersContributeNothing) {
  testing::RankOptions options;
  options.communicator.servers = {0};
  testing::run_threads(
      3,
      [](Communicator& communicator) {
        for (const Algorithm* algorithm : algorithms()) {
          std::vector<float> values(1000, static_cast<float>(communicator.rank() + 10));
          const Status status = communicator.all_reduce(
              {.input = values.data(),
               .output = values.data(),
               .count = values.size(),
               .op = ReduceOp::kAvg,
               .choice = Choice{.algorithm = std::string(algorithm->name)}});
          if (algorithm->name == "naive_ps" || algorithm->name == "sharded_ps" || status.ok()) {
            ASSERT_TRUE(status.ok()) << status.message();
            EXPECT_EQ(values, std::vector<float>(1000, 11.5f)) << algorithm->name;
          } else {
            EXPECT_EQ(status.code(), StatusCode::kUnsupported) << status.message();
          }
        }
      },
      options);
}

TEST(Communicator, SettingsThatDifferAreAnErrorOnAllRanks) {
  auto bootstraps = make_thread_bootstraps(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto options = with({{"UNISONO_DEPTH", rank == 0 ? "4" : "5"}});
      const auto communicator =
          Communicator::create(std::move(bootstraps[static_cast<size_t>(rank)]), options.settings);
      ASSERT_FALSE(communicator.ok());
      EXPECT_EQ(communicator.status().code(), StatusCode::kMismatch);
      const std::string text(communicator.status().message());
      EXPECT_NE(text.find("UNISONO_DEPTH=4"), std::string::npos) << text;
      EXPECT_NE(text.find("UNISONO_DEPTH=5"), std::string::npos) << text;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Communicator, AStuckRankIsNamedAtTheDeadline) {
  std::barrier end(3);
  testing::run_threads(
      3,
      [&](Communicator& communicator) {
        expect_sum(communicator, 10);
        if (communicator.rank() == 2) return end.arrive_and_wait();  // never calls
        float value = 1;
        const Status status = communicator.all_reduce(
            {.input = &value, .output = &value, .count = 1, .choice = Choice{.algorithm = "one_shot"}});
        EXPECT_EQ(status.code(), StatusCode::kTimeout) << status.message();
        for (const char* part : {"rank 2", "all_reduce of 4 bytes", "call 1", "one_shot"})
          EXPECT_NE(status.message().find(part), std::string_view::npos) << status.message();
        EXPECT_EQ(communicator.all_reduce({.input = &value, .output = &value, .count = 1}).code(),
                  StatusCode::kTimeout);
        end.arrive_and_wait();
      },
      with({{"UNISONO_TIMEOUT", "1s"}}));
}

TEST_P(Progress, ADeadlineEndsTheTestsOfACallToo) {
  std::barrier end(2);
  testing::run_threads(
      2,
      [&](Communicator& communicator) {
        if (communicator.rank() == 1) return end.arrive_and_wait();  // never calls
        float value = 1;
        auto request = communicator.start({.input = &value, .output = &value, .count = 1});
        ASSERT_TRUE(request.ok()) << request.status().message();
        Status status = communicator.test(*request);
        EXPECT_EQ(status.code(), StatusCode::kInProgress);
        while (status.code() == StatusCode::kInProgress) status = communicator.test(*request);
        EXPECT_EQ(status.code(), StatusCode::kTimeout) << status.message();
        EXPECT_EQ(communicator.all_reduce({.input = &value, .output = &value, .count = 1}).code(),
                  StatusCode::kTimeout);
        end.arrive_and_wait();
      },
      with({{"UNISONO_TIMEOUT", "1s"}, {"UNISONO_PROGRESS", GetParam()}}));
}

TEST(Communicator, AbortFromAnotherThreadEndsAWait) {
  testing::run_threads(2, [](Communicator& communicator) {
    if (communicator.rank() == 1) return (void)communicator.all_gather("");
    std::thread other([&] { communicator.abort(); });
    float value = 1;
    const Status status = communicator.all_reduce({.input = &value, .output = &value, .count = 1});
    other.join();
    EXPECT_EQ(status.code(), StatusCode::kAborted) << status.message();
    (void)communicator.all_gather("");
  });
}

TEST(Processes, EveryAlgorithm) {
  for (const int size : {2, 3, 5}) {
    const auto statuses = testing::run_processes(size, [](Communicator& communicator) {
      for (const Algorithm* algorithm : algorithms())
        for (const size_t count : {size_t{1}, size_t{1000}, size_t{300000}})
          expect_sum(communicator, count, Choice{.algorithm = std::string(algorithm->name)});
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(statuses, std::vector<int>(static_cast<size_t>(size), 0));
  }
}

TEST(Processes, AKilledRankIsAnErrorOnAllOthersBeforeTheDeadline) {
  for (const char* algorithm : {"ring", "one_shot", "double_binary_tree"}) {
    const auto start = std::chrono::steady_clock::now();
    const auto statuses = testing::run_processes(
        4,
        [&](Communicator& communicator) {
          const Choice choice{.algorithm = algorithm};
          expect_sum(communicator, 100, choice);
          if (communicator.rank() == 2) raise(SIGKILL);
          std::vector<float> values(500000, 1);
          Status status;
          for (int i = 0; i < 1000 && status.ok(); ++i)
            status = communicator.all_reduce(
                {.input = values.data(), .output = values.data(), .count = values.size(), .choice = choice});
          const bool named = status.message().find("rank 2") != std::string_view::npos;
          if (status.code() != StatusCode::kPeerFailed || !named)
            fprintf(stderr, "rank %d: %s\n", communicator.rank(), std::string(status.message()).c_str());
          return status.code() == StatusCode::kPeerFailed && named ? 0 : 1;
        });
    for (size_t rank = 0; rank < statuses.size(); ++rank)
      EXPECT_EQ(statuses[rank], rank == 2 ? SIGKILL : 0) << "rank " << rank << ", " << algorithm;
    EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10)) << algorithm;
  }
}

}  // namespace
}  // namespace unisono
