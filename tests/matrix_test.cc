// SPDX-License-Identifier: Apache-2.0
// Every algorithm × type × op × in place or not × aligned or not × count, on every rank.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/registry.h"
#include "tests/support/ranks.h"
#include "tools/check.h"

namespace unisono {
namespace {

struct Case {
  DataType type;
  ReduceOp op;
  bool in_place;
  bool aligned;
  size_t count;
};

// Guard bytes around the output must stay as they were.
constexpr std::byte kGuard{0xA5};
constexpr size_t kMargin = 64;

class Buffer {
 public:
  Buffer(size_t bytes, bool aligned) : memory_(bytes + 2 * kMargin + 1, kGuard), bytes_(bytes), skew_(!aligned) {}
  std::byte* data() { return memory_.data() + kMargin + skew_; }
  bool guards_intact() const {
    for (size_t i = 0; i < memory_.size(); ++i)
      if ((i < kMargin + skew_ || i >= kMargin + skew_ + bytes_) && memory_[i] != kGuard) return false;
    return true;
  }

 private:
  std::vector<std::byte> memory_;
  size_t bytes_, skew_;
};

// Problems are costly to make and serve every count: one of each kind for each thread.
const Problem& problem_of(InputSet set, DataType type, ReduceOp op, int ranks, int rank) {
  thread_local std::map<std::tuple<InputSet, DataType, ReduceOp, int, int>, Problem> problems;
  return problems.try_emplace({set, type, op, ranks, rank}, set, type, op, ranks, rank).first->second;
}

void run_case(Communicator& communicator, const Choice& choice, const Case& c, InputSet set) {
  SCOPED_TRACE(::testing::Message() << choice.algorithm << " rank " << communicator.rank() << " of "
                                    << communicator.size() << " " << name_of(c.type) << " "
                                    << name_of(c.op) << " count " << c.count << " in_place " << c.in_place
                                    << " aligned " << c.aligned << " " << name_of(set));
  const Problem& problem = problem_of(set, c.type, c.op, communicator.size(), communicator.rank());
  const size_t bytes = c.count * size_of(c.type);
  Buffer input(bytes, c.aligned), output(bytes, c.aligned);
  Buffer& from = c.in_place ? output : input;
  problem.write_input(c.count, from.data(), c.count);
  const Status status = communicator.all_reduce({.input = from.data(),
                                                 .output = output.data(),
                                                 .count = c.count,
                                                 .type = c.type,
                                                 .op = c.op,
                                                 .choice = choice});
  ASSERT_TRUE(status.ok()) << status.message();
  const Verdict verdict = problem.check(c.count, output.data(), c.count);
  EXPECT_EQ(verdict.wrong, 0u) << "element " << verdict.first_wrong << " is " << verdict.got
                               << ", expected " << verdict.expected;
  EXPECT_TRUE(output.guards_intact() && input.guards_intact());
  if (!c.in_place) {
    Buffer again(bytes, c.aligned);
    problem.write_input(c.count, again.data(), c.count);
    EXPECT_TRUE(std::equal(again.data(), again.data() + bytes, input.data())) << "the input changed";
  }
  if (set != InputSet::kOrderSensitive) return;
  const uint64_t hash = hash_of(output.data(), bytes);
  const auto hashes = communicator.all_gather({reinterpret_cast<const char*>(&hash), sizeof hash});
  ASSERT_TRUE(hashes.ok());
  for (const std::string& theirs : *hashes) EXPECT_EQ(theirs, hashes->front()) << "ranks differ in bits";
}

std::vector<size_t> small_counts(int ranks) {
  const auto p = static_cast<size_t>(ranks);
  return {0, 1, p - 1, p, p + 1, 257};
}

struct World {
  std::string transport;
  int ranks;
};

// Threads share memory as processes do; a network is for processes.
class Matrix : public ::testing::TestWithParam<World> {
 protected:
  void run(const std::function<void(Communicator&)>& body) {
    const auto& [transport, ranks] = GetParam();
    testing::RankOptions options;
    ASSERT_TRUE(options.settings.set("UNISONO_TRANSPORT", transport, "options").ok());
    if (transport == "host_memory") return testing::run_threads(ranks, body, options);
    const auto all_well = [&](Communicator& communicator) {
      body(communicator);
      return HasFailure() ? 1 : 0;
    };
    for (const int status : testing::run_processes(ranks, all_well, options)) EXPECT_EQ(status, 0);
  }
};

std::vector<World> worlds() {
  std::vector<World> all;
  for (const std::string& transport : testing::built_transports())
    for (const int ranks :
         transport == "host_memory" ? std::vector{1, 2, 3, 5, 7, 8} : std::vector{1, 2, 3, 4, 5})
      all.push_back({transport, ranks});
  return all;
}

TEST_P(Matrix, SmallCountsFullProduct) {
  run([&](Communicator& communicator) {
    for (const Algorithm* algorithm : algorithms())
      for (const DataType type : kDataTypes)
        for (const ReduceOp op : kReduceOps)
          for (const bool in_place : {false, true})
            for (const bool aligned : {false, true})
              for (const size_t count : small_counts(communicator.size()))
                run_case(communicator, {.algorithm = std::string(algorithm->name)},
                         {type, op, in_place, aligned, count}, InputSet::kExact);
  });
}

TEST_P(Matrix, LargeCountPairwise) {
  const size_t count = GetParam().transport == "host_memory" ? 1000003 : 200003;
  run([&](Communicator& communicator) {
    size_t turn = 0;
    for (const Algorithm* algorithm : algorithms()) {
      for (const DataType type : kDataTypes) {
        // Over the types, each algorithm meets every op, in place and not, aligned and not.
        const ReduceOp op = kReduceOps[turn % kReduceOps.size()];
        run_case(communicator, {.algorithm = std::string(algorithm->name)},
                 {type, op, turn % 2 == 0, turn / 2 % 2 == 0, count}, InputSet::kExact);
        ++turn;
      }
    }
  });
}

TEST_P(Matrix, SameBitsOnEveryRank) {
  run([&](Communicator& communicator) {
    for (const Algorithm* algorithm : algorithms())
      for (const DataType type : kDataTypes)
        for (const ReduceOp op : kReduceOps)
          if (depends_on_order(type, op))
            run_case(communicator, {.algorithm = std::string(algorithm->name)}, {type, op, false, true, 4099},
                     InputSet::kOrderSensitive);
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, Matrix, ::testing::ValuesIn(worlds()), [](const auto& info) {
  return info.param.transport + "_" + std::to_string(info.param.ranks);
});

}  // namespace
}  // namespace unisono
