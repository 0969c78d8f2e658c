// SPDX-License-Identifier: Apache-2.0
// Memory that all ranks map: it comes and goes without a trace, and what goes wrong is told to all.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/support/ranks.h"
#include "tests/support/shared_texts.h"

namespace unisono {
namespace {

using ::testing::HasSubstr;

constexpr size_t kKi = 1024, kMi = 1024 * kKi;

std::byte* allocate(Communicator& communicator, size_t bytes) {
  const auto memory = communicator.allocate(bytes);
  return memory.ok() ? static_cast<std::byte*>(*memory) : nullptr;
}

size_t open_descriptors() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

size_t memory_files() {
  std::ifstream maps("/proc/self/maps");
  size_t found = 0;
  for (std::string line; std::getline(maps, line);)
    found += line.find("memfd:unisono") != std::string::npos;
  return found;
}

TEST(Memory, AgainstACallIsAMismatch) {
  for (const bool frees : {false, true}) {
    testing::run_threads(2, [&](Communicator& communicator) {
      std::byte* const memory = allocate(communicator, kKi);
      ASSERT_NE(memory, nullptr);
      float value = 1;
      const Status status = communicator.rank() == 1
                                ? communicator.all_reduce({.input = &value, .output = &value, .count = 1})
                            : frees ? communicator.free(memory)
                                    : communicator.allocate(kKi).status();
      EXPECT_EQ(status.code(), StatusCode::kMismatch) << status.message();
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 allocates or frees memory after 0 calls"));
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 all_reduce 1 f32 sum"));
    });
  }
}

TEST(Memory, LeavesNothingWhenItIsFreed) {
  testing::expect_processes(3, [](Communicator& communicator) -> std::string {
    size_t descriptors = 0, mappings = 0;
    for (int cycle = 0; cycle < 20; ++cycle) {
      if (cycle == 1) descriptors = open_descriptors(), mappings = memory_files();
      std::byte* const first = allocate(communicator, 3 * kMi);
      std::byte* const second = allocate(communicator, 1);
      if (first == nullptr || second == nullptr) return "no memory";
      if (std::any_of(first, first + 3 * kMi, [](std::byte byte) { return byte != std::byte{0}; }))
        return "not zeroed";
      if (memory_files() == mappings) return "not mapped";
      std::fill_n(first, 3 * kMi, std::byte{1});
      for (std::byte* const memory : {first, second})
        if (const Status status = communicator.free(memory); !status.ok())
          return std::string(status.message());
    }
    if (open_descriptors() > descriptors) return "descriptors are left";
    if (memory_files() != mappings) return "mappings are left";
    return {};
  });
}

TEST(Memory, SaysWhatIsWrong) {
  testing::expect_processes(2, [](Communicator& communicator) -> std::string {
    const auto expect = [](const Status& status, StatusCode code,
                           std::string_view text) -> std::string {
      if (status.code() == code && status.message().find(text) != std::string_view::npos) return {};
      return fmt::format("expected '{}', got '{}'", text, status.message());
    };
    std::string faults;
    std::byte* const memory = allocate(communicator, 64 * kKi);
    faults += expect(communicator.allocate(0).status(), StatusCode::kInvalidArgument, "at least 1");
    faults += expect(communicator.free(&faults), StatusCode::kInvalidArgument, "not allocated");
    faults += expect(communicator.free(memory + 8), StatusCode::kInvalidArgument,
                     "8 bytes into an allocation");
    // Rank 0's call cannot end before rank 1 has made it.
    const AllReduceCall call{
        .input = memory, .output = memory, .count = 8192, .type = DataType::kUint64};
    if (communicator.rank() == 1) (void)communicator.all_gather({});
    auto started = communicator.start(call);
    if (communicator.rank() == 0) {
      faults += expect(communicator.free(memory), StatusCode::kInvalidArgument, "not ended");
      faults +=
          expect(communicator.allocate(64).status(), StatusCode::kInvalidArgument, "not ended");
      (void)communicator.all_gather({});
    }
    faults += expect(communicator.wait(*started), StatusCode::kOk, "");
    // Agreed: the same on all ranks, and nothing has changed.
    const size_t bytes = communicator.rank() == 0 ? 64 : 128;
    faults += expect(communicator.allocate(bytes).status(), StatusCode::kMismatch,
                     "rank 0 allocates 64 bytes, mapped by all, rank 1 allocates 128 bytes");
    faults += expect(communicator.allocate(size_t{1} << 46).status(), StatusCode::kOutOfResources,
                     "rank 0: shared memory: need");
    if (communicator.rank() == 1) {
      const rlimit low{kMi, RLIM_INFINITY};
      setrlimit(RLIMIT_FSIZE, &low);
    }
    faults += expect(communicator.allocate(2 * kMi).status(), StatusCode::kOutOfResources,
                     "rank 1: shared memory: need");
    faults += expect(communicator.free(nullptr), StatusCode::kOk, "");
    faults += expect(communicator.free(memory), StatusCode::kOk, "");
    if (communicator.rank() == 0)
      faults += expect(communicator.free(memory), StatusCode::kInvalidArgument, "has been freed");
    return faults;
  });
}

TEST(Memory, OfRanksThatFreeDifferentOnesIsGone) {
  testing::expect_processes(2, [](Communicator& communicator) -> std::string {
    std::byte* const memory[] = {allocate(communicator, 4096), allocate(communicator, 8192)};
    const Status status = communicator.free(memory[communicator.rank()]);
    if (status.code() != StatusCode::kMismatch ||
        status.message().find("rank 1 frees allocation 1") == std::string_view::npos)
      return std::string(status.message());
    if (communicator.all_reduce({}).ok()) return "a call went well after it";
    if (!communicator.free(memory[1 - communicator.rank()]).ok()) return "the rest cannot be freed";
    return {};
  });
}

TEST(Memory, FreedByOneRankOnlyNamesTheOther) {
  testing::expect_processes(
      2,
      [](Communicator& communicator) -> std::string {
        std::byte* const memory = allocate(communicator, 4096);
        if (communicator.rank() == 1) {
          // Waits in a call that rank 0 never makes.
          const Status status =
              communicator.all_reduce({.input = memory, .output = memory, .count = 1024});
          return status.ok() ? "rank 0 made a call?" : "";
        }
        const Status status = communicator.free(memory);
        return status.message().find("rank 1") == std::string_view::npos
                   ? std::string(status.message())
                   : "";
      },
      testing::options_with({{"UNISONO_TIMEOUT", "1s"}}));
}

TEST(Memory, IsOrdinaryWhereRanksCannotMap) {
  const auto body = [](Communicator& communicator) -> std::string {
    auto* const values = reinterpret_cast<float*>(allocate(communicator, 64 * kKi));
    if (values == nullptr) return "no memory";
    std::fill_n(values, 16 * kKi, 1.0f);
    const AllReduceCall call{.input = values, .output = values, .count = 16 * kKi};
    if (communicator.plan(call)->form == "mapped") return "mapped";
    if (const Status status = communicator.all_reduce(call); !status.ok())
      return std::string(status.message());
    if (values[0] != static_cast<float>(communicator.size()) || values[16 * kKi - 1] != values[0])
      return "wrong";
    return std::string(communicator.free(values).ok() ? "" : "not freed");
  };
  testing::expect_processes(1, body);
#if UNISONO_HAS_UCX
  testing::expect_processes(2, body, testing::options_with({{"UNISONO_TRANSPORT", "ucx"}}));
#endif
}

// A rank that dies in the middle of calls: the others learn who, and free their memory without it.
TEST(Memory, OutlivesARankThatIsKilled) {
  testing::SharedTexts texts(3);
  const auto statuses = testing::run_processes(3, [&](Communicator& communicator) {
    std::byte* const memory = allocate(communicator, 8 * kMi);
    for (int call = 0;; ++call) {
      if (communicator.rank() == 2 && call == 5) raise(SIGKILL);
      const Status status =
          communicator.all_reduce({.input = memory, .output = memory, .count = 2 * kMi});
      if (status.ok()) continue;
      std::fill_n(memory, 8 * kMi, std::byte{1});  // still there
      const bool freed = communicator.free(memory).ok();
      texts.write(static_cast<size_t>(communicator.rank()),
                  fmt::format("{} {}", status.message(), freed));
      return 0;
    }
  });
  EXPECT_TRUE(WIFSIGNALED(statuses[2]));
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(texts.read(rank), HasSubstr("rank 2"));
    EXPECT_THAT(texts.read(rank), HasSubstr("true"));
  }
}

}  // namespace
}  // namespace unisono
