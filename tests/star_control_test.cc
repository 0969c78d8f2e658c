// SPDX-License-Identifier: Apache-2.0
// Rank 0's end of a control channel that comes late to read: what had been said by then counts, whichever
// connection it came on.
#include "bootstrap/star_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

namespace unisono {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 4;

// Two different statements contradict each other.
Status compare_texts(std::span<const std::string> statements) {
  for (const std::string& one : statements)
    for (const std::string& other : statements)
      if (!one.empty() && !other.empty() && one < other)
        return Status(StatusCode::kMismatch, one + " against " + other);
  return Status();
}

// Rank 0, whose watcher sleeps until the others have spoken.
class LateHub {
 public:
  LateHub() {
    std::vector<Socket> members(kRanks);
    for (size_t rank = 1; rank < kRanks; ++rank) {
      int ends[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
      members[rank] = Socket(ends[0]);
      peers_[rank] = Socket(ends[1]);
    }
    auto watcher = Watcher::share();
    EXPECT_TRUE(watcher.ok()) << watcher.status().message();
    asleep_ = std::unique_lock((*watcher)->mutex(), std::defer_lock);
    control_ = make_hub_control(std::move(members), 1, {.compare = compare_texts, .phase = [] { return "busy"; }},
                                watcher.take());
  }
  ~LateHub() {
    for (Socket& peer : peers_) peer = Socket();
    control_->leave({});
  }

  Control& control() { return *control_; }
  void fall_asleep() { asleep_.lock(); }
  void wake_up() { asleep_.unlock(); }

  void say(size_t rank, Word word, const Status& cause, const std::string& statement) {
    write(rank, encode(Said{word, cause, statement}));
  }
  // As Control::agree() does when no verdict comes.
  void suspect(size_t rank, const std::string& statement) {
    const Status cause(StatusCode::kPeerFailed, "a consequence");
    say(rank, Word::kSuspicion, cause, statement);
    say(rank, Word::kFailure, cause, {});
  }
  void leave(size_t rank, const std::string& statement) { say(rank, Word::kLeaves, Status(), statement); }
  // To an all_gather that, if `late`, has lasted too long for this rank.
  void contribute(size_t rank, bool late) {
    write(rank, encode(Frame{{FrameKind::kData}, "x"}));
    if (late) write(rank, encode(Frame{{FrameKind::kLate}, {}}));
  }
  void die(size_t rank) { peers_[rank] = Socket(); }

  Status verdict() const {
    const Deadline deadline = Deadline::after(std::chrono::seconds(10));
    while ((control_->news() & Control::kVerdict) == 0 && !deadline.passed()) std::this_thread::yield();
    return control_->verdict();
  }

 private:
  void write(size_t rank, const Bytes& bytes) {
    EXPECT_EQ(send(peers_[rank].descriptor(), bytes->data(), bytes->size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes->size()));
  }

  std::unique_ptr<Control> control_;
  Socket peers_[kRanks];
  std::unique_lock<std::mutex> asleep_;
};

// Whether the suspicious rank is read before the one that is to blame, or after it.
constexpr size_t kOrders[][2] = {{1, 2}, {2, 1}};

TEST(LateHub, WhatALeaverSaidComesBeforeItsConsequence) {
  for (const auto& [suspicious, leaver] : kOrders) {
    LateHub hub;
    hub.fall_asleep();
    hub.suspect(suspicious, "usual");
    hub.leave(leaver, "odd");
    hub.wake_up();
    EXPECT_THAT(hub.verdict().message(), HasSubstr("odd against usual"));
  }
}

TEST(LateHub, ADeathComesBeforeItsConsequence) {
  for (const auto& [suspicious, dead] : kOrders) {
    LateHub hub;
    hub.fall_asleep();
    hub.suspect(suspicious, "usual");
    hub.die(dead);
    hub.wake_up();
    EXPECT_THAT(hub.verdict().message(), HasSubstr("rank " + std::to_string(dead) + " died"));
  }
}

// Rank 0 itself is the one that suspects, and speaks before or after its watcher.
TEST(LateHub, ItsOwnConsequenceWaitsForWhatHasBeenSaid) {
  for (const bool dies : {false, true}) {
    LateHub hub;
    hub.control().state("usual");
    hub.fall_asleep();
    std::thread rank0([&] { hub.control().fail(Status(StatusCode::kPeerFailed, "a consequence")); });
    dies ? hub.die(2) : hub.leave(2, "odd");
    hub.wake_up();
    rank0.join();
    EXPECT_THAT(hub.verdict().message(), HasSubstr(dies ? "rank 2 died" : "odd against usual"));
  }
}

TEST(LateHub, AFailureComesBeforeTheEndOfWhoFailed) {
  LateHub hub;
  hub.fall_asleep();
  hub.say(1, Word::kFailure, Status(StatusCode::kSystem, "the cause"), {});
  hub.leave(1, {});
  hub.die(1);
  hub.wake_up();
  EXPECT_EQ(hub.verdict().message(), "rank 1: the cause");
}

TEST(LateHub, NobodyIsLateWhoHasCome) {
  LateHub hub;
  hub.fall_asleep();
  hub.contribute(1, true);
  hub.contribute(2, false);
  hub.wake_up();
  EXPECT_THAT(hub.verdict().message(), HasSubstr("ranks 0, 3 of 4 did not come in time"));
}

}  // namespace
}  // namespace unisono
