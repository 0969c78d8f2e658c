// SPDX-License-Identifier: Apache-2.0
// Strangers at every port that a job's ranks ever listen on, from before init to the end: the job
// ends right.
#include "tests/support/strangers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "bootstrap/token.h"
#include "bootstrap/wire.h"
#include "tests/support/meeting.h"
#include "tests/support/ranks.h"

namespace unisono {
namespace {

using namespace testing;

constexpr int kRanks = 3;
constexpr size_t kMostOpen = 300;

// Nothing, nonsense, a hello with a wrong token, and half of one.
std::vector<std::string> bad_company() {
  Hello hello;
  hello.token = random_token();
  hello.rank = 1;
  hello.size = kRanks;
  const std::string greeting = encode(hello);
  std::vector<std::string> says = nonsense();
  says.insert(says.end(), {greeting, greeting.substr(0, greeting.size() / 2)});
  return says;
}

// Visits the ports of this process, again and again.
class Attack {
 public:
  ~Attack() {
    stop_ = true;
    thread_.join();
  }
  // Ports that have been visited since the last time; waits until all that are open have been.
  std::set<uint16_t> visited() {
    const int round = rounds_;
    while (rounds_ < round + 2) std::this_thread::yield();
    const std::lock_guard guard(mutex_);
    return std::exchange(visited_, {});
  }

 private:
  void run() {
    std::vector<Socket> open;
    for (; !stop_; ++rounds_) {
      for (const auto& [port, address] : listening()) {
        for (const std::string& says : bad_company())
          open.push_back(stranger(literal_endpoint("127.0.0.1", port), says));
        const std::lock_guard guard(mutex_);
        visited_.insert(port);
      }
      if (open.size() > kMostOpen) open.clear();
      std::this_thread::yield();
    }
  }

  std::atomic<bool> stop_ = false;
  std::atomic<int> rounds_ = 0;
  std::mutex mutex_;
  std::set<uint16_t> visited_;
  std::thread thread_{[this] { run(); }};
};

std::string live(Communicator& communicator) {
  for (int turn = 0; turn < 60; ++turn) {
    const size_t count = turn % 20 == 0 ? 1'000'000 : static_cast<size_t>(1 + turn * 97);
    std::vector<int32_t> values(count, turn + communicator.rank());
    const Status status = communicator.all_reduce({.input = values.data(),
                                                   .output = values.data(),
                                                   .count = count,
                                                   .type = DataType::kInt32});
    if (!status.ok()) return std::string(status.message());
    if (values != std::vector<int32_t>(count, 3 * turn + 3)) return "a wrong sum";
  }
  return {};
}

std::string run_rank(int rank, uint16_t port) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(kRanks).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  Settings settings = impatient();
  if (!settings.set("UNISONO_TRANSPORT", "ucx", "test").ok()) return "no such setting";
  Attack attack;
  auto bootstrap = make_process_bootstrap(settings, Deadline::after(std::chrono::seconds(20)));
  if (!bootstrap.ok()) return std::string(bootstrap.status().message());
  auto communicator = Communicator::create(bootstrap.take(), settings);
  if (!communicator.ok()) return std::string(communicator.status().message());
  const std::set<uint16_t> at_init = attack.visited();
  if (at_init.empty()) return "nothing was visited during init";
  std::string trouble = live(**communicator);
  // The rendezvous is over, and UCX's own ports are what a stranger finds.
  for (const uint16_t each : attack.visited())
    if (each == port) trouble += "the rendezvous still listens";
  // Nobody leaves while another is still being asked.
  if (!(*communicator)->all_gather("").ok()) trouble += "the end";
  return trouble;
}

TEST(Strangers, DuringInitAndAJobDoNoHarm) {
  const uint16_t port = free_port("127.0.0.1");
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.push_back(fork_rank([=] {
      const std::string trouble = run_rank(rank, port);
      if (!trouble.empty()) fmt::print(stderr, "rank {}: {}\n", rank, trouble);
      return trouble.empty();
    }));
  for (const pid_t rank : ranks) EXPECT_EQ(exit_status(rank), 0);
}

}  // namespace
}  // namespace unisono
