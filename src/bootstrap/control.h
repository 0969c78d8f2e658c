// SPDX-License-Identifier: Apache-2.0
// The contract of the control channel: how the ranks of a communicator learn, beside their data,
// that one of them has failed, or that they do not do the same.
//
// Every rank tells rank 0; rank 0 decides once, and the first verdict is everybody's. A *statement*
// is what a rank says of the calls it has made: bytes that only the owner of the channel
// understands.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"

namespace unisono {

struct ControlOptions {
  // ok, or how the ranks contradict one another, from the newest statement of each, by rank; empty
  // where a rank has made none. What two statements contradict in, later ones must not mend. Pure.
  Status (*compare)(std::span<const std::string> statements) = nullptr;
  // Where this rank is in its work, for the news that another one died: "rank 0 had made 7 calls".
  // Any thread.
  std::function<std::string()> phase;
};

// What a rank tells rank 0, with its statement (empty: the one before stands).
enum class Word : uint32_t {
  kStatement,  // nothing has failed here: a long wait, or an answer
  kSuspicion,  // this has failed here, most likely because of something elsewhere; all others are
               // asked for statements
  kFailure,    // this has failed here
  kLeaves,     // nothing more will come from here; all others are asked too
};

// One rank's end. Its owner uses it from one thread at a time; news(), verdict() and fail() from
// any.
class Control {
 public:
  static constexpr uint32_t kVerdict = 1;  // nothing works any more
  static constexpr uint32_t kAsked =
      2;  // somebody suspects something or has left: make a statement, if you wait

  virtual ~Control() = default;  // leave() before, or the others take it for a death

  // Bits of what has happened since. One load, so a waiter may look at it often.
  uint32_t news() const { return news_.load(std::memory_order_acquire); }
  // ok while there is none. The same on all ranks.
  Status verdict() const;

  void state(std::string statement);
  // What has failed everywhere, given what has failed here: waits for the verdict, at most
  // 3 s. `cause` if nobody answers.
  Status agree(const Status& cause, std::string statement);
  // This rank has failed, and all are to fail with `cause`; does not wait for them. Any thread.
  void fail(const Status& cause) { tell(Word::kFailure, cause, {}); }
  // At the end. Bounded. What was said before still arrives.
  virtual void leave(std::string statement) = 0;

  // Collective: see Bootstrap::all_gather(). Fails with the verdict; its own failure is one.
  virtual Result<std::vector<std::string>> all_gather(std::string_view mine, Deadline deadline) = 0;

 protected:
  virtual void tell(Word word, const Status& cause, std::string statement) = 0;

  // From any thread. The first verdict stays.
  void decide(const Status& verdict);
  void ask() { news_.fetch_or(kAsked, std::memory_order_release); }
  // Whether there is a verdict, after waiting for it.
  bool await_verdict(std::chrono::nanoseconds longest);

  mutable std::mutex mutex_;
  std::condition_variable changed_;

 private:
  std::atomic<uint32_t> news_ = 0;
  Status verdict_;
};

}  // namespace unisono
