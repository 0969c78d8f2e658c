// SPDX-License-Identifier: Apache-2.0
// Ranks of one host that may not share memory, as in a container with little of it or with system
// calls denied: all take the network, for a reason that each logs; or all fail, where they must
// not.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/caught.h"
#include "tests/support/ranks.h"
#include "tests/support/shared_texts.h"
#include "tests/support/ucx_pair.h"

namespace unisono {
namespace {

using namespace testing;
using ::testing::HasSubstr;

constexpr int kRanks = 3;

void limit_files() {
  const rlimit limit{1 << 20, 1 << 20};
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

// From here on, the system call says EPERM.
void deny(uint32_t system_call) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, system_call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  EXPECT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  EXPECT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

struct Refusal {
  std::function<void()> arrange;
  std::string reason;
};
const Refusal kRefusals[] = {
    {limit_files, "shared memory: need "},
    {[] { deny(SYS_memfd_create); }, "cannot create shared memory: Operation not permitted"},
    {[] { deny(SYS_pidfd_open); }, "cannot watch processes (pidfd_open): Operation not permitted"},
};

struct Outcome {
  std::vector<int> statuses;
  std::string log;
};

Outcome run(const std::string& transport, const Refusal& refusal, int refused,
            const std::function<int(Communicator&)>& body) {
  RankOptions options;
  EXPECT_TRUE(options.settings.set("UNISONO_TRANSPORT", transport, "options").ok());
  options.before = [&](int rank) {
    if (rank == refused) refusal.arrange();
  };
  const Caught caught;
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome{run_processes(kRanks, body, options), {}};
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  outcome.log = caught.text();
  return outcome;
}

#if UNISONO_HAS_UCX
TEST(Fallback, AllRanksTakeTheNetworkAndSayWhy) {
  for (const Refusal& refusal : kRefusals)
    for (const int refused : {0, 2}) {
      SCOPED_TRACE(fmt::format("rank {}: {}", refused, refusal.reason));
      SharedTexts texts(kRanks);
      const auto [statuses, log] = run("auto", refusal, refused, [&](Communicator& communicator) {
        std::vector<int32_t> values(5000, 1 + communicator.rank());
        const AllReduceCall call{.input = values.data(),
                                 .output = values.data(),
                                 .count = values.size(),
                                 .type = DataType::kInt32};
        const auto plan = communicator.plan(call);
        if (!plan.ok() || !communicator.all_reduce(call).ok()) return 1;
        texts.write(static_cast<size_t>(communicator.rank()),
                    fmt::format("{} {}", plan->transport, plan->choice.algorithm));
        return values == std::vector<int32_t>(5000, 6) ? 0 : 2;
      });
      EXPECT_EQ(statuses, std::vector<int>(kRanks, 0));
      for (size_t rank = 0; rank < kRanks; ++rank) {
        EXPECT_EQ(texts.read(rank), "ucx recursive_doubling");
        EXPECT_THAT(log, HasSubstr(fmt::format(
                             "unisono rank {}: transport host_memory is not used: rank {}: ", rank,
                             refused)));
      }
      EXPECT_THAT(log, HasSubstr(refusal.reason));
      EXPECT_EQ(std::ranges::count(log, '\n'), kRanks) << log;
    }
}
// Threads meet such a limit all at once.
TEST(Fallback, ThreadsTakeTheNetworkToo) {
  const Caught caught;
  in_fresh_process([] {
    limit_files();
    run_threads(kRanks, [](Communicator& communicator) {
      float value = 1;
      const AllReduceCall call{.input = &value, .output = &value, .count = 1};
      const auto plan = communicator.plan(call);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      EXPECT_EQ(plan->transport, "ucx");
      EXPECT_TRUE(communicator.all_reduce(call).ok());
      EXPECT_EQ(value, kRanks);
    });
  });
  EXPECT_THAT(caught.text(), HasSubstr("transport host_memory is not used: rank 0: shared memory"));
}
#endif

TEST(Fallback, ForcedIsForced) {
  for (const Refusal& refusal : kRefusals) {
    SCOPED_TRACE(refusal.reason);
    const auto [statuses, log] = run("host_memory", refusal, 1, [](Communicator&) { return 0; });
    for (const int status : statuses) EXPECT_NE(status, 0);
    for (int rank = 0; rank < kRanks; ++rank)
      EXPECT_THAT(log, HasSubstr(fmt::format("rank {}: no transport reaches rank {} (host_memory: "
                                             "rank 1: ",
                                             rank, rank == 0 ? 1 : 0)));
    EXPECT_THAT(log, HasSubstr(refusal.reason));
  }
}

}  // namespace
}  // namespace unisono
