// SPDX-License-Identifier: Apache-2.0
// Ranks that die or leave: one verdict on all others, in every phase and long before the deadline.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "tests/support/ranks.h"
#include "tests/support/shared_texts.h"

namespace unisono {
namespace {

using namespace testing;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr int kRanks = 4;
constexpr size_t kCount = 500'000, kLargeCount = 16 << 20;
enum class End { kKilled, kExited, kLeftInACall, kAborted };
enum class Phase { kBeforeTheFirstCall, kInACall, kInALargeCall, kBetweenCalls };

Status call(Communicator& communicator, size_t count) {
  std::vector<float> values(count, 1);
  return communicator.all_reduce({.input = values.data(), .output = values.data(), .count = count});
}

// What comes before the end, on all ranks: nobody still needs the victim for it.
void begin_phase(Communicator& communicator, Phase phase, SharedTexts& texts) {
  if (phase == Phase::kBetweenCalls && !call(communicator, 100).ok()) _exit(1);
  texts.meet(kRanks);
}

size_t count_in(Phase phase) {
  return phase == Phase::kInALargeCall ? kLargeCount : kCount;
}

// Only kLeftInACall and kAborted come back.
void end_it(Communicator& communicator, End end, Phase phase) {
  static std::vector<float> values(count_in(phase), 1);
  if (phase == Phase::kInACall || phase == Phase::kInALargeCall || end == End::kLeftInACall) {
    const auto request = communicator.start(
        {.input = values.data(), .output = values.data(), .count = values.size()});
    for (int turn = 0; phase == Phase::kInALargeCall && turn < 100; ++turn)
      if (communicator.test(*request).code() != StatusCode::kInProgress) _exit(1);
  }
  if (end == End::kKilled) raise(SIGKILL);
  if (end == End::kExited) _exit(3);
  if (end == End::kAborted) communicator.abort();
}

std::string fate_of(Communicator& communicator, size_t count) {
  Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) status = call(communicator, count);
  const Status later = call(communicator, 1);
  if (later.message() != status.message())
    return "another verdict later: " + std::string(later.message());
  return fmt::format("{}: {}", name_of(status.code()), status.message());
}

void try_end(End end, int victim, Phase phase, std::string_view expected,
             const std::string& transport = "host_memory") {
  SCOPED_TRACE(fmt::format("rank {}, end {}, phase {}", victim, static_cast<int>(end),
                           static_cast<int>(phase)));
  SCOPED_TRACE(transport);
  RankOptions options;
  ASSERT_TRUE(options.settings.set("UNISONO_TRANSPORT", transport, "options").ok());
  SharedTexts texts(kRanks);
  const auto start = std::chrono::steady_clock::now();
  run_processes(
      kRanks,
      [&](Communicator& communicator) {
        const int rank = communicator.rank();
        begin_phase(communicator, phase, texts);
        if (rank == victim) {
          end_it(communicator, end, phase);
        } else {
          texts.write(static_cast<size_t>(rank), fate_of(communicator, count_in(phase)));
        }
        return 0;
      },
      options);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));  // half the deadline
  std::string verdict;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == victim) continue;
    const std::string text = texts.read(static_cast<size_t>(rank));
    EXPECT_THAT(text, HasSubstr(fmt::format("peer failed: rank {}{}", victim, expected)))
        << "rank " << rank;
    // With rank 0 gone, each rank tells where it was itself.
    const std::string common = text.substr(0, victim == 0 ? text.find(" (") : text.npos);
    if (verdict.empty()) verdict = common;
    EXPECT_EQ(common, verdict) << "rank " << rank;
  }
}

TEST(Processes, ADeathIsOneVerdictWhereverAndWheneverItComes) {
  for (const std::string& transport : built_transports())
    for (int victim = 0; victim < kRanks; ++victim)
      for (const Phase phase : {Phase::kBeforeTheFirstCall, Phase::kInACall, Phase::kInALargeCall,
                                Phase::kBetweenCalls})
        try_end(End::kKilled, victim, phase, " died", transport);
}

TEST(Processes, LeavingWithAnErrorIsOneVerdict) {
  for (const int victim : {0, 3}) {
    try_end(End::kExited, victim, Phase::kBetweenCalls, " died");
    try_end(End::kLeftInACall, victim, Phase::kBetweenCalls,
            ": it left with calls that had not ended");
    try_end(End::kAborted, victim, Phase::kInACall, ": its communicator was aborted");
  }
}

TEST(Processes, ACleanLeaveIsNoFailureUntilTheLeaverIsNeeded) {
  for (const int leaver : {0, 2}) {
    SharedTexts texts(3);
    run_processes(3, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      std::string text = call(communicator, 1000).ok() ? "ok" : "a good call failed";
      if (rank != leaver) {
        for (int i = 0; i < 10000; ++i)  // needs nobody
          if (!call(communicator, 0).ok()) text = "failed without need";
        texts.meet(2);
        if (text == "ok") text = call(communicator, 1000).message();
      }
      texts.write(static_cast<size_t>(rank), text);
      return 0;
    });
    for (int rank = 0; rank < 3; ++rank) {
      const std::string text = texts.read(static_cast<size_t>(rank));
      const std::string expected =
          rank == leaver ? "ok" : fmt::format("rank {} left after 1 calls", leaver);
      EXPECT_THAT(text, HasSubstr(expected));
    }
  }
}

}  // namespace
}  // namespace unisono
