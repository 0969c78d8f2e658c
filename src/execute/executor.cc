// SPDX-License-Identifier: Apache-2.0
#include "execute/executor.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cassert>
#include <optional>

#include "base/deadline.h"
#include "base/text.h"

namespace unisono {
namespace {

// A dead peer is noticed, and an abort obeyed, within one nap.
constexpr std::chrono::milliseconds kLongestNap{5};
// A wait without progress is long after that; the clock is read at every so many checks.
constexpr std::chrono::seconds kLongWait{1};
constexpr uint32_t kChecksPerLook = 16;
// A yield that takes longer has given other programs their time slices. Sleepers are woken at once instead, so nobody
// yields for one wait, and for twice as many each time that this happens in a row, up to so many.
constexpr std::chrono::microseconds kLongYield{500};
constexpr int kMostWaitsWithoutYields = 64;

void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

WaitPolicy wait_policy(int ranks, int cpus) {
  // With a CPU for each rank a short spin is quickest; the yields after it let in whoever else runs here. With fewer
  // CPUs than ranks the one that is waited for may have to be let in; once all that share my CPU have come, those on
  // others are about to, and a yield, which costs some microseconds, would run nobody who has anything to do.
  if (ranks <= cpus) return {.looks = 100, .spins = 200, .direct_spins = 200, .yields = 1000};
  return {.looks = 5, .spins = 0, .direct_spins = 1000, .yields = 20};
}

Executor::Executor(std::vector<std::unique_ptr<Transport>> transports, WaitPolicy policy, CallLog& log,
                   Control& control)
    : log_(log),
      control_(control),
      transports_(std::move(transports)),
      policy_(policy),
      lane_(transports_.size() == 1 ? transports_.front().get() : nullptr, log.rank()) {}

Executor::~Executor() {
  leave();
}

void Executor::start(Call& call, uint32_t sequence, const void* input, void* output) {
  assert(failure_.ok());
  log_.note(sequence, call.plan());
  if (call.plan().direct != nullptr) {
    lane_.start(call, sequence, input, output);
    if (call.failed()) fail(call.status());
    return;
  }
  call.begin(sequence, input, output);
  if (!call.finished()) running_.push_back(&call);
}

bool Executor::advance_lane() {
  if (lane_.idle() || !lane_.advance()) return false;
  if (const Call* first = lane_.first(); first != nullptr && first->failed()) fail(first->status());
  return true;
}

bool Executor::progress() {
  bool moved = advance_lane();
  for (const auto& transport : transports_) moved |= transport->progress() > 0;
  // A call that has ended leaves the list; its owner sees that it finished.
  for (size_t i = 0; i < running_.size();) {
    Call& call = *running_[i];
    if (call.wants_to_advance()) {
      call.advance();
      moved = true;
    }
    if (call.failed()) {
      fail(call.status());
      return true;
    }
    if (call.finished()) {
      running_[i] = running_.back();
      running_.pop_back();
    } else {
      ++i;
    }
  }
  if (moved) checks_ = 0;
  return moved;
}

bool Executor::sleep(std::chrono::nanoseconds longest) {
  if (transports_.empty()) return false;
  // Only the first one can be slept on; the others are looked at more often instead.
  if (transports_.size() > 1)
    longest = std::min<std::chrono::nanoseconds>(longest, std::chrono::microseconds(50));
  bool moved = false;
  transports_.front()->sleep(longest, [&] { return moved = advance_lane(); });
  for (size_t i = 1; i < transports_.size(); ++i)
    transports_[i]->sleep(std::chrono::nanoseconds(0));
  return moved;
}

void Executor::request_abort() {
  abort_requested_.store(true, std::memory_order_relaxed);
  control_.fail(Status(StatusCode::kPeerFailed, "its communicator was aborted"));
}

const Status& Executor::look_around() {
  if (!failure_.ok()) return failure_;
  if (abort_requested_.load(std::memory_order_relaxed)) {
    stop(Status(StatusCode::kAborted, "the communicator was aborted"));
  } else if (const uint32_t news = control_.news(); (news & Control::kVerdict) != 0) {
    // What the verdict is about may be a later call: those that have all they need still end well.
    while (failure_.ok() && progress()) {
    }
    if (failure_.ok()) stop(control_.verdict());
  } else if (news != 0 && !idle()) {
    make_statement();
  } else if (checks_++ % kChecksPerLook == 0) {
    tell_of_long_wait();
  }
  return failure_;
}

// Slow ranks are no error; but those that wait for each other in different calls would wait for ever, and find that
// out by comparing what they say.
void Executor::tell_of_long_wait() {
  if (checks_ == 1 || idle()) {
    patience_.reset();
    told_ = false;
  }
  if (idle() || told_) return;
  if (!patience_) {
    patience_ = Deadline::after(kLongWait);
  } else if (patience_->passed()) {
    make_statement();
    told_ = true;
  }
}

std::string Executor::statement(bool left) const {
  std::optional<uint32_t> oldest;
  if (!lane_.idle()) oldest = lane_.first()->sequence();
  for (const Call* const call : running_) oldest = std::min(call->sequence(), oldest.value_or(UINT32_MAX));
  return log_.statement(oldest, left);
}

void Executor::yield() {
  const auto begin = std::chrono::steady_clock::now();
  sched_yield();
  const bool is_long = std::chrono::steady_clock::now() - begin > kLongYield;
  if (is_long) waits_without_yields_ = long_yields_cost_;
  long_yields_cost_ = is_long ? std::min(2 * long_yields_cost_, kMostWaitsWithoutYields) : 1;
}

// How many are worth while now: whoever shares its CPU with the rank that it waits for spins in vain.
int Executor::spins() const {
  if (lane_.idle()) return lane_.has_neighbours() ? 0 : policy_.spins;
  return lane_.awaits_neighbour() ? 0 : policy_.direct_spins;
}

Status Executor::wait(Call& call, std::chrono::nanoseconds timeout) {
  // A peer that makes the call at the same time is a cache line away, less than a pause.
  for (int look = 0; look < policy_.looks && !call.finished() && !lane_.idle() && failure_.ok(); ++look)
    advance_lane();
  if (call.finished()) return Status();
  lane_.find_neighbours();
  const bool yields = waits_without_yields_ == 0;
  if (!yields) --waits_without_yields_;
  int spun = 0, yielded = 0;
  Deadline deadline = Deadline::never();  // runs while nothing moves; no clock is read before a yield
  while (!call.finished()) {
    if (progress()) {
      spun = yielded = 0;
      deadline = Deadline::never();
    } else if (spun < spins()) {
      ++spun;
      cpu_pause();
    } else if (yields && waits_without_yields_ == 0 && yielded < policy_.yields) {
      ++yielded;
      yield();
    } else {
      if (!deadline.runs()) deadline = Deadline::after(timeout);
      sleep(kLongestNap);
      if (check().ok() && deadline.passed()) {
        fail(Status(StatusCode::kTimeout, fmt::format("{}: nothing in {}", call.describe_wait(),
                                                      format_duration(timeout))));
      }
    }
    if (!failure_.ok()) return call.finished() ? Status() : failure_;
  }
  return Status();
}

void Executor::fail(const Status& cause) {
  assert(!cause.ok());
  if (failure_.ok()) stop(control_.agree(cause, statement()));
}

void Executor::leave() {
  if (left_) return;
  left_ = true;
  if (failure_.ok() && !idle())
    control_.fail(Status(StatusCode::kPeerFailed, "it left with calls that had not ended"));
  control_.leave(statement(true));
  if (failure_.ok()) stop(Status(StatusCode::kAborted, "the communicator was destroyed"));
}

void Executor::stop(Status cause) {
  failure_ = std::move(cause);
  for (const auto& transport : transports_) transport->abort();
  running_.clear();
  lane_.abort();
}

}  // namespace unisono
