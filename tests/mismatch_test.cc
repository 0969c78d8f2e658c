// SPDX-License-Identifier: Apache-2.0
// Ranks that do not make the same calls: an error on all of them, naming both sides; never a hang,
// never a wrong sum.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "tests/support/ranks.h"
#include "tests/support/shared_texts.h"

namespace unisono {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 3;
constexpr int kOdd = 2;  // the rank that does something else

struct OneCall {
  size_t count;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  const char* algorithm = "one_shot";
};
using Calls = std::vector<OneCall>;

struct Kind {
  const char* name;
  Calls usual, odd;
  std::string one, other;  // what the message says of the two sides
};

std::string text_of(const OneCall& call) {
  return fmt::format("all_reduce {} {} {} by {}", call.count, name_of(call.type), name_of(call.op),
                     call.algorithm);
}

// Two ranks that differ in the first of `calls` in which they can.
Kind differing(const char* name, Calls usual, Calls odd) {
  Kind kind{name, std::move(usual), std::move(odd), {}, {}};
  size_t call = 0;
  while (text_of(kind.usual[call]) == text_of(kind.odd[call])) ++call;
  kind.one = text_of(kind.usual[call]);
  kind.other = text_of(kind.odd[call]);
  return kind;
}

std::vector<Kind> kinds(size_t bytes) {
  const size_t n = bytes / sizeof(float);
  const OneCall first{2}, sum{n}, max{.count = n, .op = ReduceOp::kMax};
  return {
      differing("count", {{n}}, {{n - 1}}),
      differing("half the count", {{n}}, {{n / 2}}),
      differing("no elements, then the same again", {sum, max}, {{0}, max}),
      differing("type of the same size", {{n}}, {{.count = n, .type = DataType::kInt32}}),
      differing("type of another size", {{n}}, {{.count = n, .type = DataType::kFloat64}}),
      differing("op", {sum}, {max}),
      differing("algorithm", {{n}}, {{.count = n, .algorithm = "ring"}}),
      differing("order", {sum, max}, {max, sum}),
      differing("second call", {first, sum}, {first, max}),
      {"a call less", {first, sum}, {first}, text_of(sum), "rank 2 left after 1 calls"},
      {"a call more", {first}, {first, sum}, text_of(sum), "left after 1 calls"},
  };
}

// Memory that costs nothing until a message comes.
class Zeroes {
 public:
  explicit Zeroes(size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Zeroes() { munmap(data_, bytes_); }
  Zeroes(const Zeroes&) = delete;
  Zeroes& operator=(const Zeroes&) = delete;
  void* data() const { return data_; }

 private:
  const size_t bytes_;
  void* const data_;
};

// All calls of a rank; the text of the first error, or none.
std::string run_calls(Communicator& communicator, const Calls& calls) {
  for (const OneCall& call : calls) {
    const size_t bytes = call.count * size_of(call.type);
    const Zeroes values(bytes + 1);
    const auto status = communicator.all_reduce({.input = values.data(),
                                                 .output = values.data(),
                                                 .count = call.count,
                                                 .type = call.type,
                                                 .op = call.op,
                                                 .choice = Choice{.algorithm = call.algorithm}});
    if (!status.ok()) return fmt::format("{}: {}", name_of(status.code()), status.message());
  }
  return {};
}

struct Trial {
  Kind kind;
  size_t bytes;
  std::string form, transport;

  const Calls& calls(int rank) const { return rank == kOdd ? kind.odd : kind.usual; }
};

Settings settings_of(const Trial& trial, size_t number) {
  Settings settings = testing::impatient();
  const std::pair<std::string_view, std::string> values[] = {
      {"UNISONO_FORM", trial.form},
      {"UNISONO_TRANSPORT", trial.transport},
      {"UNISONO_STAGING_BYTES", "256K"},
      {"UNISONO_BOOTSTRAP", "local"},
      {"UNISONO_JOB_TOKEN", fmt::format("{:016x}{:016x}", getppid(), number)}};
  for (const auto& [name, value] : values) EXPECT_TRUE(settings.set(name, value, "options").ok());
  return settings;
}

void check(const Trial& trial, const std::string (&texts)[kRanks]) {
  SCOPED_TRACE(fmt::format("{}, {} bytes, {}, {}", trial.kind.name, trial.bytes, trial.form,
                           trial.transport));
  const size_t most = std::max(trial.kind.usual.size(), trial.kind.odd.size());
  std::string verdict;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::string& text = texts[rank];
    if (trial.calls(rank).size() < most) {  // it has made none that could fail
      EXPECT_EQ(text, "");
      continue;
    }
    EXPECT_THAT(text, HasSubstr("mismatched call: call ")) << "rank " << rank;
    EXPECT_THAT(text, HasSubstr(trial.kind.one)) << "rank " << rank;
    EXPECT_THAT(text, HasSubstr(trial.kind.other)) << "rank " << rank;
    EXPECT_THAT(text, HasSubstr("rank 2 ")) << "rank " << rank;
    if (verdict.empty()) verdict = text;
    EXPECT_EQ(text, verdict);
  }
}

// All trials side by side: some take the second after which a wait is long.
void on_threads(const std::vector<Trial>& trials, testing::SharedTexts& texts) {
  std::vector<std::thread> jobs;
  for (size_t i = 0; i < trials.size(); ++i) {
    jobs.emplace_back([&, i] {
      testing::run_threads(kRanks,
                           [&](Communicator& communicator) {
                             const int rank = communicator.rank();
                             texts.write(i * kRanks + static_cast<size_t>(rank),
                                         run_calls(communicator, trials[i].calls(rank)));
                           },
                           {.settings = settings_of(trials[i], i)});
    });
  }
  for (std::thread& job : jobs) job.join();
}

std::string run_process(const Trial& trial, size_t number, int rank) {
  const Settings settings = settings_of(trial, number);
  auto bootstrap = make_process_bootstrap(settings, Deadline::after(std::chrono::seconds(20)));
  if (!bootstrap.ok()) return std::string(bootstrap.status().message());
  auto communicator = Communicator::create(bootstrap.take(), settings);
  if (!communicator.ok()) return std::string(communicator.status().message());
  return run_calls(**communicator, trial.calls(rank));
}

void on_processes(const std::vector<Trial>& trials, testing::SharedTexts& texts) {
  testing::run_processes(kRanks, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    std::vector<std::thread> jobs;
    for (size_t i = 0; i < trials.size(); ++i)
      jobs.emplace_back([&, i] {
        texts.write(i * kRanks + static_cast<size_t>(rank), run_process(trials[i], i, rank));
      });
    for (std::thread& job : jobs) job.join();
    return 0;
  });
}

void run(const std::vector<size_t>& sizes, const std::vector<std::string>& forms,
         const std::string& transport, decltype(on_threads) how) {
  std::vector<Trial> trials;
  for (const size_t bytes : sizes)
    for (const std::string& form : forms)
      for (const Kind& kind : kinds(bytes)) trials.push_back({kind, bytes, form, transport});
  testing::SharedTexts texts(trials.size() * kRanks);
  how(trials, texts);
  for (size_t i = 0; i < trials.size(); ++i) {
    std::string of_ranks[kRanks];
    for (size_t rank = 0; rank < kRanks; ++rank) of_ranks[rank] = texts.read(i * kRanks + rank);
    check(trials[i], of_ranks);
  }
}

TEST(Mismatch, ThreadsSmall) {
  run({8, 65536}, {"direct", "staged", "schedule"}, "host_memory", on_threads);
}
TEST(Mismatch, ThreadsLarge) {
  run({64 << 20}, {"direct", "schedule"}, "host_memory", on_threads);
}
TEST(Mismatch, ProcessesSmall) {
  run({8, 65536}, {"direct", "schedule"}, "host_memory", on_processes);
}
TEST(Mismatch, ProcessesLarge) {
  run({64 << 20}, {"direct", "schedule"}, "host_memory", on_processes);
}
#if UNISONO_HAS_UCX
TEST(Mismatch, UcxThreads) {
  run({8, 65536}, {"schedule"}, "ucx", on_threads);
}
TEST(Mismatch, UcxProcesses) {
  run({8, 65536, 64 << 20}, {"schedule"}, "ucx", on_processes);
}
#endif

}  // namespace
}  // namespace unisono
