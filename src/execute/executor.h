// SPDX-License-Identifier: Apache-2.0
// Executor: moves transports and running calls on, and waits without wasting a CPU that others
// need.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "bootstrap/control.h"
#include "execute/call.h"
#include "execute/call_log.h"
#include "execute/direct_lane.h"
#include "transport/transport.h"

namespace unisono {

// How a waiter passes the time, in this order; then it sleeps in the kernel.
struct WaitPolicy {
  int looks = 0;         // at direct calls only, with nothing between them
  int spins = 0;         // polls with a CPU pause between them
  int direct_spins = 0;  // the same at direct calls, while nobody is waited for that shares my CPU
  int yields = 0;        // polls with sched_yield between them
};

// `ranks` ranks of this host share `cpus` CPUs.
WaitPolicy wait_policy(int ranks, int cpus);

// One thread at a time, but for request_abort().
class Executor {
 public:
  // With one transport for all peers that maps blocks, direct forms run too. `log` and `control` outlive it.
  Executor(std::vector<std::unique_ptr<Transport>> transports, WaitPolicy policy, CallLog& log, Control& control);
  ~Executor();

  // The call stays in place until it has finished, or the executor has failed.
  void start(Call& call, uint32_t sequence, const void* input, void* output);
  // Moves everything on once; whether anything happened. No waiting.
  bool progress();
  // Until the call has finished. Errors: the call's, kTimeout with who was waited for, kAborted.
  // After an error the executor has failed: no peer begins to touch a buffer (withdraw_buffers), and every later call
  // fails alike, on all ranks.
  Status wait(Call& call, std::chrono::nanoseconds timeout);
  // One nap of at most `longest`, during which arrivals wake it; whether a call ended or failed in place of it.
  bool sleep(std::chrono::nanoseconds longest);

  // ok, or why nothing works any more.
  const Status& failure() const { return failure_; }
  // Takes the ranks' common verdict, given what has failed here, and ends everything. Waits at most 3 s.
  void fail(const Status& cause);
  // The communicator's end: tells the others, and ends everything here.
  void leave();
  // Tells the other ranks of the calls made here, which theirs are compared with.
  void make_statement() { control_.state(statement()); }
  bool idle() const { return running_.empty() && lane_.idle(); }
  DirectLane& lane() { return lane_; }
  const DirectLane& lane() const { return lane_; }

  // From any thread: the waiter fails with kAborted within milliseconds, and the other ranks as if this one had died.
  void request_abort();
  // ok, or the failure; makes a requested abort and the verdict of the ranks come true. Called from time to time by
  // whoever waits, it also tells the other ranks of a wait that runs long.
  const Status& check() {
    // A look that finds nothing, with no call waiting, is all that a call pays.
    if (failure_.ok() && idle() && !abort_requested_.load(std::memory_order_relaxed) && control_.news() == 0)
      return failure_;
    return look_around();
  }

 private:
  const Status& look_around();
  bool advance_lane();
  std::string statement(bool left = false) const;
  void tell_of_long_wait();
  int spins() const;
  void yield();
  void stop(Status cause);

  CallLog& log_;
  Control& control_;
  std::vector<std::unique_ptr<Transport>> transports_;
  const WaitPolicy policy_;
  std::vector<Call*> running_;  // through schedules
  DirectLane lane_;
  Status failure_;
  std::atomic<bool> abort_requested_ = false;
  uint32_t checks_ = 0;               // since something last moved
  std::optional<Deadline> patience_;  // until the wait is long
  bool told_ = false;
  bool left_ = false;
  int waits_without_yields_ = 0;
  int long_yields_cost_ = 1;  // waits without yields that follow the next long yield
};

}  // namespace unisono
