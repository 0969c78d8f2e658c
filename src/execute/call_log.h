// SPDX-License-Identifier: Apache-2.0
// CallLog: the calls that this rank has made last, and what ranks learn from comparing theirs.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "execute/plan.h"

namespace unisono {

// One thread at a time, but for phase().
class CallLog {
 public:
  // So many calls are remembered, to be compared with a rank that is behind.
  static constexpr size_t kCalls = 16;

  explicit CallLog(int rank) : rank_(rank) {}
  int rank() const { return rank_; }

  // Calls come by ascending number. The plan stays until kCalls more have been made.
  void note(uint32_t sequence, const Plan& plan) {
    last_[sequence % kCalls] = &plan;
    made_.store(sequence + 1, std::memory_order_relaxed);
  }

  // Around what all ranks do together that is no call: allocating memory, and freeing it.
  void begin_gather() { gathering_ = true; }
  void end_gather() {
    gathering_ = false;
    ++gathers_;
  }

  // A statement for compare(): how many calls, which are the last ones, the oldest that waits (if
  // any), whether this rank has left, and whether it gathers.
  std::string statement(std::optional<uint32_t> oldest_waiting, bool left) const;
  // "rank 2 had made 7 calls". Any thread.
  std::string phase() const;

  // The statements of all ranks, by rank, empty where unknown. kMismatch, naming two ranks, when a
  // call is not the same on both, or when one waits in a call that another has left without making,
  // or will not make before both have gathered.
  // A rank that is merely behind is no contradiction.
  static Status compare(std::span<const std::string> statements);

 private:
  const int rank_;
  std::atomic<uint32_t> made_ = 0;
  uint32_t gathers_ = 0;  // that have ended
  bool gathering_ = false;
  std::array<const Plan*, kCalls> last_ = {};  // by number modulo kCalls
};

}  // namespace unisono
