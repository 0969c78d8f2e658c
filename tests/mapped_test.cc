// SPDX-License-Identifier: Apache-2.0
// Buffers that all ranks map: the same bits as the schedule's whatever lies where, and memory that comes and goes
// without a trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "algorithms/registry.h"
#include "tests/support/ranks.h"
#include "tests/support/shared_texts.h"
#include "tools/check.h"

namespace unisono {
namespace {

using ::testing::HasSubstr;

constexpr size_t kKi = 1024, kMi = 1024 * kKi;
constexpr size_t kRegion = 12 * kMi;

testing::RankOptions with(std::initializer_list<std::pair<const char*, const char*>> settings) {
  testing::RankOptions options;
  for (const auto& [name, value] : settings) EXPECT_TRUE(options.settings.set(name, value, "options").ok());
  return options;
}

// Runs `body` in a process a rank; it returns what went wrong, or nothing.
void on_processes(int ranks, const std::function<std::string(Communicator&)>& body,
                  const testing::RankOptions& options = {}) {
  testing::SharedTexts texts(static_cast<size_t>(ranks));
  const auto statuses = testing::run_processes(
      ranks,
      [&](Communicator& communicator) {
        texts.write(static_cast<size_t>(communicator.rank()), body(communicator));
        return 0;
      },
      options);
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(statuses[static_cast<size_t>(rank)], 0) << "rank " << rank;
    EXPECT_EQ(texts.read(static_cast<size_t>(rank)), "") << "rank " << rank;
  }
}

std::byte* allocate(Communicator& communicator, size_t bytes) {
  const auto memory = communicator.allocate(bytes);
  return memory.ok() ? static_cast<std::byte*>(*memory) : nullptr;
}

// Where the buffers of a call lie. What is not mapped is of this process alone.
struct Layout {
  const char* name;
  size_t input_offset, output_offset;  // from a line
  bool in_place;
  bool (*mapped_input)(int rank, int size);
  bool (*mapped_output)(int rank, int size);
};
constexpr auto kAll = [](int, int) { return true; };
constexpr auto kNone = [](int, int) { return false; };
const Layout kLayouts[] = {
    {"mapped", 0, 0, false, kAll, kAll},
    {"mapped, in place", 0, 0, true, kAll, kAll},
    {"mapped, not aligned", 8, 24, false, kAll, kAll},
    {"mapped, rank 0 aligned otherwise", 64, 0, false, kAll, kAll},
    {"private", 0, 0, false, kNone, kNone},
    {"private input of rank 0", 0, 0, false, [](int rank, int) { return rank != 0; }, kAll},
    {"private output of the last", 0, 0, false, kAll, [](int rank, int size) { return rank != size - 1; }},
    {"only rank 1 mapped", 0, 0, false, [](int rank, int) { return rank == 1; }, [](int rank, int) { return rank == 1; }},
};

// Around where forms change hands, where shares end within a line, and beyond a core's cache.
std::vector<size_t> sizes(int ranks) {
  const auto p = static_cast<size_t>(ranks);
  return {8, p * 2 * kKi - 8, p * 2 * kKi, 16 * kKi + 8, 64 * kKi, p * 256 * kKi + 72, 3 * kMi + 1000};
}

// Rank 0's hash, or the fault of any.
std::string check_layouts(Communicator& communicator, bool expects_mapped, std::vector<uint64_t>& hashes) {
  const int rank = communicator.rank(), size = communicator.size();
  std::byte* const shared_input = allocate(communicator, kRegion);
  std::byte* const shared_output = allocate(communicator, kRegion);
  if (shared_input == nullptr || shared_output == nullptr) return "no memory";
  std::vector<std::byte> own_input(4 * kMi), own_output(4 * kMi);
  for (const char* algorithm : {"one_shot", "sharded_ps"}) {
    for (const DataType type : {DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64}) {
      const Problem problem(InputSet::kOrderSensitive, type, ReduceOp::kAvg, size, rank);
      for (const size_t bytes : sizes(size)) {
        for (const Layout& layout : kLayouts) {
          const size_t count = bytes / size_of(type);
          // Ranks need not use the same part of the memory.
          const size_t where = static_cast<size_t>(rank) * 4 * kKi;
          std::byte* const output =
              (layout.mapped_output(rank, size) ? shared_output + where : own_output.data()) + layout.output_offset;
          std::byte* const input =
              layout.in_place ? output
                              : (layout.mapped_input(rank, size) ? shared_input + where : own_input.data()) + layout.input_offset;
          problem.write_input(count, input, count);
          const AllReduceCall call{.input = input, .output = output, .count = count, .type = type, .op = ReduceOp::kAvg,
                                   .choice = Choice{.algorithm = algorithm}};
          const std::string what = fmt::format("{} {} of {} bytes, {}", algorithm, name_of(type), bytes, layout.name);
          if (layout.mapped_input == static_cast<bool (*)(int, int)>(kAll) &&
              layout.mapped_output == static_cast<bool (*)(int, int)>(kAll)) {
            const auto plan = communicator.plan(call);
            const bool mapped = expects_mapped && bytes >= static_cast<size_t>(size) * 2 * kKi &&
                                (bytes <= 64 * kKi || algorithm == std::string_view("sharded_ps"));
            if (!plan.ok() || (plan->form == "mapped") != mapped) return what + ": by " + plan->form;
          }
          if (const Status status = communicator.all_reduce(call); !status.ok())
            return what + ": " + std::string(status.message());
          if (problem.check(count, output, count).wrong > 0) return what + ": wrong";
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
    on_processes(
        ranks,
        [&](Communicator& communicator) {
          std::vector<uint64_t> mine;
          const std::string fault = check_layouts(communicator, form == std::string_view("direct"), mine);
          hashes.write(run * static_cast<size_t>(ranks) + static_cast<size_t>(communicator.rank()),
                       fmt::format("{} results, {:x}", mine.size(), hash_of(mine.data(), mine.size() * sizeof(uint64_t))));
          return fault;
        },
        with({{"UNISONO_FORM", form}}));
    ++run;
  }
  EXPECT_THAT(hashes.read(0), HasSubstr("336 results"));
  for (size_t i = 1; i < static_cast<size_t>(2 * ranks); ++i) EXPECT_EQ(hashes.read(i), hashes.read(0)) << i;
}

INSTANTIATE_TEST_SUITE_P(Ranks, Mapped, ::testing::Values(2, 3, 5));

// Many calls one after another, and started ones side by side, of both kinds.
TEST(MappedCalls, FollowOneAnother) {
  for (const char* progress : {"caller", "thread"}) {
    on_processes(
        3,
        [](Communicator& communicator) -> std::string {
          constexpr size_t kCount = 4096, kCalls = 4;
          auto* const values = reinterpret_cast<uint64_t*>(allocate(communicator, kCalls * kCount * 8));
          std::vector<uint64_t> own(kCount);
          for (uint64_t round = 0; round < 200; ++round) {
            std::vector<Request*> requests;
            for (uint64_t i = 0; i < kCalls; ++i) {
              // A rank's third buffer is private now and then.
              const bool is_private = i == 2 && round % 3 == static_cast<uint64_t>(communicator.rank());
              uint64_t* const buffer = is_private ? own.data() : values + i * kCount;
              std::fill_n(buffer, kCount, round + i);
              auto request = communicator.start({.input = buffer, .output = buffer, .count = kCount,
                                                 .type = DataType::kUint64, .op = ReduceOp::kSum});
              if (!request.ok()) return std::string(request.status().message());
              requests.push_back(*request);
            }
            for (uint64_t i = 0; i < kCalls; ++i) {
              if (const Status status = communicator.wait(requests[i]); !status.ok()) return std::string(status.message());
              const bool is_private = i == 2 && round % 3 == static_cast<uint64_t>(communicator.rank());
              const uint64_t* const buffer = is_private ? own.data() : values + i * kCount;
              for (size_t at = 0; at < kCount; ++at)
                if (buffer[at] != 3 * (round + i)) return fmt::format("round {} call {} element {}", round, i, at);
            }
          }
          return {};
        },
        with({{"UNISONO_PROGRESS", progress}}));
  }
}

size_t open_descriptors() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

size_t memory_files() {
  std::ifstream maps("/proc/self/maps");
  size_t found = 0;
  for (std::string line; std::getline(maps, line);) found += line.find("memfd:unisono") != std::string::npos;
  return found;
}

TEST(Memory, LeavesNothingWhenItIsFreed) {
  on_processes(3, [](Communicator& communicator) -> std::string {
    size_t descriptors = 0, mappings = 0;
    for (int cycle = 0; cycle < 20; ++cycle) {
      if (cycle == 1) descriptors = open_descriptors(), mappings = memory_files();
      std::byte* const first = allocate(communicator, 3 * kMi);
      std::byte* const second = allocate(communicator, 1);
      if (first == nullptr || second == nullptr) return "no memory";
      if (std::any_of(first, first + 3 * kMi, [](std::byte byte) { return byte != std::byte{0}; })) return "not zeroed";
      if (memory_files() == mappings) return "not mapped";
      std::fill_n(first, 3 * kMi, std::byte{1});
      for (std::byte* const memory : {first, second})
        if (const Status status = communicator.free(memory); !status.ok()) return std::string(status.message());
    }
    if (open_descriptors() > descriptors) return "descriptors are left";
    if (memory_files() != mappings) return "mappings are left";
    return {};
  });
}

TEST(Memory, SaysWhatIsWrong) {
  on_processes(2, [](Communicator& communicator) -> std::string {
    const auto expect = [](const Status& status, StatusCode code, std::string_view text) -> std::string {
      if (status.code() == code && status.message().find(text) != std::string_view::npos) return {};
      return fmt::format("expected '{}', got '{}'", text, status.message());
    };
    std::string faults;
    std::byte* const memory = allocate(communicator, 64 * kKi);
    faults += expect(communicator.allocate(0).status(), StatusCode::kInvalidArgument, "at least 1");
    faults += expect(communicator.free(&faults), StatusCode::kInvalidArgument, "not allocated");
    faults += expect(communicator.free(memory + 8), StatusCode::kInvalidArgument, "8 bytes into an allocation");
    auto started = communicator.start({.input = memory, .output = memory, .count = 8192, .type = DataType::kUint64});
    if (communicator.rank() == 0)  // rank 1 may have everything that it needs
      faults += expect(communicator.test(*started).code() == StatusCode::kInProgress ? communicator.free(memory)
                                                                                     : invalid_argument("not ended"),
                       StatusCode::kInvalidArgument, "not ended");
    (void)communicator.all_gather({});
    (void)communicator.wait(*started).ok();
    // Agreed: the same on all ranks, and nothing has changed.
    const size_t bytes = communicator.rank() == 0 ? 64 : 128;
    faults += expect(communicator.allocate(bytes).status(), StatusCode::kMismatch,
                     "rank 0 allocates 64 bytes, mapped by all, rank 1 allocates 128 bytes");
    faults += expect(communicator.allocate(size_t{1} << 46).status(), StatusCode::kOutOfResources, "rank 0: shared memory: need");
    if (communicator.rank() == 1) {
      const rlimit low{kMi, RLIM_INFINITY};
      setrlimit(RLIMIT_FSIZE, &low);
    }
    faults += expect(communicator.allocate(2 * kMi).status(), StatusCode::kOutOfResources, "rank 1: shared memory: need");
    faults += expect(communicator.free(nullptr), StatusCode::kOk, "");
    faults += expect(communicator.free(memory), StatusCode::kOk, "");
    if (communicator.rank() == 0) faults += expect(communicator.free(memory), StatusCode::kInvalidArgument, "has been freed");
    return faults;
  });
}

TEST(Memory, OfRanksThatFreeDifferentOnesIsGone) {
  on_processes(2, [](Communicator& communicator) -> std::string {
    std::byte* const memory[] = {allocate(communicator, 4096), allocate(communicator, 8192)};
    const Status status = communicator.free(memory[communicator.rank()]);
    if (status.code() != StatusCode::kMismatch || status.message().find("rank 1 frees allocation 1") == std::string_view::npos)
      return std::string(status.message());
    if (communicator.all_reduce({}).ok()) return "a call went well after it";
    if (!communicator.free(memory[1 - communicator.rank()]).ok()) return "the rest cannot be freed";
    return {};
  });
}

TEST(Memory, FreedByOneRankOnlyNamesTheOther) {
  on_processes(
      2,
      [](Communicator& communicator) -> std::string {
        std::byte* const memory = allocate(communicator, 4096);
        if (communicator.rank() == 1) {
          // Waits in a call that rank 0 never makes.
          const Status status = communicator.all_reduce({.input = memory, .output = memory, .count = 1024});
          return status.ok() ? "rank 0 made a call?" : "";
        }
        const Status status = communicator.free(memory);
        return status.message().find("rank 1") == std::string_view::npos ? std::string(status.message()) : "";
      },
      with({{"UNISONO_TIMEOUT", "1s"}}));
}

TEST(Memory, IsOrdinaryWhereRanksCannotMap) {
  const auto body = [](Communicator& communicator) -> std::string {
    auto* const values = reinterpret_cast<float*>(allocate(communicator, 64 * kKi));
    if (values == nullptr) return "no memory";
    std::fill_n(values, 16 * kKi, 1.0f);
    const AllReduceCall call{.input = values, .output = values, .count = 16 * kKi};
    if (communicator.plan(call)->form == "mapped") return "mapped";
    if (const Status status = communicator.all_reduce(call); !status.ok()) return std::string(status.message());
    if (values[0] != static_cast<float>(communicator.size()) || values[16 * kKi - 1] != values[0]) return "wrong";
    return std::string(communicator.free(values).ok() ? "" : "not freed");
  };
  on_processes(1, body);
#if UNISONO_HAS_UCX
  on_processes(2, body, with({{"UNISONO_TRANSPORT", "ucx"}}));
#endif
}

// A rank that dies in the middle of calls: the others learn who, and free their memory without it.
TEST(Memory, OutlivesARankThatIsKilled) {
  testing::SharedTexts texts(3);
  const auto statuses = testing::run_processes(3, [&](Communicator& communicator) {
    std::byte* const memory = allocate(communicator, 8 * kMi);
    for (int call = 0;; ++call) {
      if (communicator.rank() == 2 && call == 5) raise(SIGKILL);
      const Status status = communicator.all_reduce({.input = memory, .output = memory, .count = 2 * kMi});
      if (status.ok()) continue;
      std::fill_n(memory, 8 * kMi, std::byte{1});  // still there
      const bool freed = communicator.free(memory).ok();
      texts.write(static_cast<size_t>(communicator.rank()), fmt::format("{} {}", status.message(), freed));
      return 0;
    }
  });
  EXPECT_TRUE(WIFSIGNALED(statuses[2]));
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(texts.read(rank), HasSubstr("rank 2"));
    EXPECT_THAT(texts.read(rank), HasSubstr("true"));
  }
}

// Threads touch each other's buffers. One that gives up unmaps its own at once, wherever the others are.
TEST(MappedThreads, TouchNoBufferOfARankThatGaveUp) {
  for (int trial = 0; trial < 20; ++trial) {
    testing::run_threads(3, [&](Communicator& communicator) {
      constexpr size_t kBytes = 4 * kMi;
      void* const memory = mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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
