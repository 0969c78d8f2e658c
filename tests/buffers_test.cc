// SPDX-License-Identifier: Apache-2.0
// Buffers that are withdrawn: who is waited for, and how long.
#include "direct/buffers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

namespace unisono {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Two ranks; mine is 0.
class Withdraw : public ::testing::Test {
 protected:
  std::atomic<bool>& peer_is_busy() { return blocks_[1]->busy.raised; }
  Clock::duration withdraw(bool one_process) {
    DirectBlock* const blocks[] = {blocks_[0].get(), blocks_[1].get()};
    const auto start = Clock::now();
    withdraw_buffers(blocks, 0, DirectMemory(one_process));
    const auto took = Clock::now() - start;
    EXPECT_TRUE(blocks_[0]->withdrawn.raised);
    EXPECT_FALSE(blocks_[1]->withdrawn.raised);
    return took;
  }

 private:
  const std::unique_ptr<DirectBlock> blocks_[2] = {std::make_unique<DirectBlock>(), std::make_unique<DirectBlock>()};
};

TEST_F(Withdraw, WaitsForNobodyWhoIsNotBusy) {
  EXPECT_LT(withdraw(false), 500ms);
}

// Such as a process that was stopped in the middle of its work.
TEST_F(Withdraw, WaitsASecondForAProcessThatStaysBusy) {
  peer_is_busy() = true;
  const auto took = withdraw(false);
  EXPECT_GE(took, 1s);
  EXPECT_LT(took, 5s);
  EXPECT_TRUE(peer_is_busy());
}

TEST_F(Withdraw, WaitsForAThreadUntilItIsDone) {
  peer_is_busy() = true;
  std::atomic<bool> done = false;
  std::jthread peer([&] {
    std::this_thread::sleep_for(1200ms);  // longer than for a process
    done = true;
    peer_is_busy() = false;
  });
  (void)withdraw(true);
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace unisono
