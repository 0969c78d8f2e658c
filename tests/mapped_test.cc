// SPDX-License-Identifier: Apache-2.0
// Buffers that all ranks map: the same bits as the schedule's whatever lies where.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

#include "tests/support/ranks.h"
#include "tests/support/shared_texts.h"
#include "tools/check.h"

namespace unisono {
namespace {

using ::testing::HasSubstr;

constexpr size_t kKi = 1024, kMi = 1024 * kKi;
constexpr size_t kRegion = 12 * kMi;

std::byte* allocate(Communicator& communicator, size_t bytes) {
  const auto memory = communicator.allocate(bytes);
  return memory.ok() ? static_cast<std::byte*>(*memory) : nullptr;
}

enum class Ranks { kAll, kNone, kAllButTheFirst, kAllButTheLast, kOnlyTheSecond };

bool include(Ranks ranks, int rank, int size) {
  switch (ranks) {
    case Ranks::kAll: return true;
    case Ranks::kNone: return false;
    case Ranks::kAllButTheFirst: return rank != 0;
    case Ranks::kAllButTheLast: return rank != size - 1;
    case Ranks::kOnlyTheSecond: return rank == 1;
  }
  return false;
}

// Where the buffers of a call lie. What is not mapped is of this process alone.
struct Layout {
  const char* name;
  size_t input_offset, output_offset;  // from a line
  bool in_place;
  Ranks input_mapped, output_mapped;
  bool all_mapped() const { return input_mapped == Ranks::kAll && output_mapped == Ranks::kAll; }
};
const Layout kLayouts[] = {
    {"mapped", 0, 0, false, Ranks::kAll, Ranks::kAll},
    {"mapped, in place", 0, 0, true, Ranks::kAll, Ranks::kAll},
    {"mapped, not aligned", 8, 24, false, Ranks::kAll, Ranks::kAll},
    {"mapped, rank 0 aligned otherwise", 64, 0, false, Ranks::kAll, Ranks::kAll},
    {"private", 0, 0, false, Ranks::kNone, Ranks::kNone},
    {"private input of rank 0", 0, 0, false, Ranks::kAllButTheFirst, Ranks::kAll},
    {"private output of the last", 0, 0, false, Ranks::kAll, Ranks::kAllButTheLast},
    {"only rank 1 mapped", 0, 0, false, Ranks::kOnlyTheSecond, Ranks::kOnlyTheSecond},
};

// Around where forms change hands, where shares end within a line, and beyond a core's cache.
std::vector<size_t> sizes(int ranks) {
  const auto p = static_cast<size_t>(ranks);
  return {8,        p * 4 * kKi - 8,    p * 4 * kKi,   16 * kKi + 8,
          64 * kKi, p * 256 * kKi + 72, 3 * kMi + 1000};
}

// Rank 0's hash, or the fault of any.
std::string check_layouts(Communicator& communicator, bool expects_mapped,
                          std::vector<uint64_t>& hashes) {
  const int rank = communicator.rank(), size = communicator.size();
  std::byte* const shared_input = allocate(communicator, kRegion);
  std::byte* const shared_output = allocate(communicator, kRegion);
  if (shared_input == nullptr || shared_output == nullptr) return "no memory";
  std::vector<std::byte> own_input(4 * kMi), own_output(4 * kMi);
  for (const char* algorithm : {"one_shot", "sharded_ps"}) {
    const auto serves_mapped = [&](size_t bytes) {
      return bytes >= static_cast<size_t>(size) * 4 * kKi &&
             (bytes <= 64 * kKi || algorithm == std::string_view("sharded_ps"));
    };
    for (const DataType type : {DataType::kBfloat16, DataType::kFloat64}) {
      const Problem problem(InputSet::kOrderSensitive, type, ReduceOp::kAvg, size, rank);
      for (const size_t bytes : sizes(size)) {
        for (const Layout& layout : kLayouts) {
          const size_t count = bytes / size_of(type);
          // Ranks need not use the same part of the memory.
          const size_t where = static_cast<size_t>(rank) * 4 * kKi;
          std::byte* const output =
              (include(layout.output_mapped, rank, size) ? shared_output + where : own_output.data()) +
              layout.output_offset;
          std::byte* const input =
              layout.in_place
                  ? output
                  : (include(layout.input_mapped, rank, size) ? shared_input + where : own_input.data()) +
                        layout.input_offset;
          problem.write_input(count, input, count);
          const AllReduceCall call{.input = input,
                                   .output = output,
                                   .count = count,
                                   .type = type,
                                   .op = ReduceOp::kAvg,
                                   .choice = Choice{.algorithm = algorithm}};
          const std::string what =
              fmt::format("{} {} of {} bytes, {}", algorithm, name_of(type), bytes, layout.name);
          const bool mapped = expects_mapped && serves_mapped(bytes) && layout.all_mapped();
          if (layout.all_mapped()) {
            const auto plan = communicator.plan(call);
            if (!plan.ok() || (plan->form == "mapped") != mapped)
              return what + ": by " + plan->form;
          }
          if (const Status status = communicator.all_reduce(call); !status.ok())
            return what + ": " + std::string(status.message());
          if (problem.check(count, output, count).wrong > 0) return what + ": wrong";
          const auto ran = communicator.plan(call);
          if (!ran.ok() || (ran->ran == "mapped") != mapped) return what + ": ran by " + ran->ran;
          hashes.push_back(hash_of(output, bytes));
        }
      }
    }
  }
  return {};
}

class Mapped : public ::testing::TestWithParam<int> {};

TEST_P(Mapped, GivesTheBitsOfTheSchedule) {
  const int ranks = GetParam();
  testing::SharedTexts hashes(static_cast<size_t>(2 * ranks));
  size_t run = 0;
  for (const char* form : {"direct", "schedule"}) {
    testing::expect_processes(
        ranks,
        [&](Communicator& communicator) {
          std::vector<uint64_t> mine;
          const std::string fault =
              check_layouts(communicator, form == std::string_view("direct"), mine);
          hashes.write(run * static_cast<size_t>(ranks) + static_cast<size_t>(communicator.rank()),
                       fmt::format("{} results, {:x}", mine.size(),
                                   hash_of(mine.data(), mine.size() * sizeof(uint64_t))));
          return fault;
        },
        testing::options_with({{"UNISONO_FORM", form}}));
    ++run;
  }
  EXPECT_THAT(hashes.read(0), HasSubstr("224 results"));
  for (size_t i = 1; i < static_cast<size_t>(2 * ranks); ++i)
    EXPECT_EQ(hashes.read(i), hashes.read(0)) << i;
}

INSTANTIATE_TEST_SUITE_P(Ranks, Mapped, ::testing::Values(2, 3, 5));

// Many calls one after another, and started ones side by side, of both kinds.
TEST(MappedCalls, FollowOneAnother) {
  for (const char* progress : {"caller", "thread"}) {
    testing::expect_processes(
        3,
        [](Communicator& communicator) -> std::string {
          constexpr size_t kCount = 4096, kCalls = 4;
          auto* const values =
              reinterpret_cast<uint64_t*>(allocate(communicator, kCalls * kCount * 8));
          std::vector<uint64_t> own(kCount);
          for (uint64_t round = 0; round < 200; ++round) {
            std::vector<Request*> requests;
            for (uint64_t i = 0; i < kCalls; ++i) {
              // A rank's third buffer is private now and then.
              const bool is_private =
                  i == 2 && round % 3 == static_cast<uint64_t>(communicator.rank());
              uint64_t* const buffer = is_private ? own.data() : values + i * kCount;
              std::fill_n(buffer, kCount, round + i);
              auto request = communicator.start({.input = buffer,
                                                 .output = buffer,
                                                 .count = kCount,
                                                 .type = DataType::kUint64,
                                                 .op = ReduceOp::kSum});
              if (!request.ok()) return std::string(request.status().message());
              requests.push_back(*request);
            }
            for (uint64_t i = 0; i < kCalls; ++i) {
              if (const Status status = communicator.wait(requests[i]); !status.ok())
                return std::string(status.message());
              const bool is_private =
                  i == 2 && round % 3 == static_cast<uint64_t>(communicator.rank());
              const uint64_t* const buffer = is_private ? own.data() : values + i * kCount;
              for (size_t at = 0; at < kCount; ++at)
                if (buffer[at] != 3 * (round + i))
                  return fmt::format("round {} call {} element {}", round, i, at);
            }
          }
          return {};
        },
        testing::options_with({{"UNISONO_PROGRESS", progress}}));
  }
}

// Threads touch each other's buffers. One that gives up unmaps its own at once, wherever the others
// are.
TEST(MappedThreads, TouchNoBufferOfARankThatGaveUp) {
  for (int trial = 0; trial < 20; ++trial) {
    testing::run_threads(3, [&](Communicator& communicator) {
      constexpr size_t kBytes = 4 * kMi;
      void* const memory =
          mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      auto* const input = static_cast<std::byte*>(memory);
      const AllReduceCall call{.input = input, .output = input + kBytes, .count = kBytes / 4};
      ASSERT_TRUE(communicator.all_reduce(call).ok());
      const auto request = communicator.start(call);
      if (communicator.rank() == trial % 3) {
        bool runs = request.ok();
        for (int turn = 0; runs && turn < trial; ++turn)
          runs = communicator.test(*request).code() == StatusCode::kInProgress;
        communicator.abort();
        if (runs) (void)communicator.wait(*request).ok();
      } else if (request.ok()) {  // unless it learnt of the abort before
        (void)communicator.wait(*request).ok();
      }
      munmap(memory, 2 * kBytes);
    });
  }
}

}  // namespace
}  // namespace unisono
