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

void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

WaitPolicy wait_policy(int ranks, int cpus) {
  // With a CPU for each rank a short spin is quickest; the yields after it let in whoever else runs here, which
  // may be the rank that is waited for. With fewer CPUs than ranks it surely is.
  if (ranks <= cpus) return {.spins = 200, .yields = 1000};
  return {.spins = 10, .yields = 20};
}

Executor::Executor(std::vector<std::unique_ptr<Transport>> transports, WaitPolicy policy)
    : transports_(std::move(transports)),
      policy_(policy),
      lane_(transports_.size() == 1 ? transports_.front().get() : nullptr) {}

Executor::~Executor() {
  if (failure_.ok()) fail(Status(StatusCode::kAborted, "the communicator was destroyed"));
}

void Executor::start(Call& call, uint32_t sequence, const void* input, void* output) {
  assert(failure_.ok());
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
  return moved;
}

void Executor::sleep(std::chrono::nanoseconds longest) {
  if (transports_.empty()) return;
  // Only the first one can be slept on; the others are looked at more often instead.
  if (transports_.size() > 1)
    longest = std::min<std::chrono::nanoseconds>(longest, std::chrono::microseconds(50));
  transports_.front()->sleep(longest, [this] { return advance_lane(); });
  for (size_t i = 1; i < transports_.size(); ++i)
    transports_[i]->sleep(std::chrono::nanoseconds(0));
}

const Status& Executor::check() {
  if (failure_.ok() && abort_requested_.load(std::memory_order_relaxed))
    fail(Status(StatusCode::kAborted, "the communicator was aborted"));
  return failure_;
}

Status Executor::wait(Call& call, std::chrono::nanoseconds timeout) {
  int idle = 0;
  std::optional<Deadline> deadline;  // runs while nothing moves; a short wait reads no clock
  while (!call.finished()) {
    if (progress()) {
      idle = 0;
      deadline.reset();
    } else if (++idle <= policy_.spins) {
      cpu_pause();
    } else if (idle <= policy_.spins + policy_.yields) {
      sched_yield();
    } else {
      if (!deadline) deadline = Deadline::after(timeout);
      sleep(kLongestNap);
      if (!check().ok()) return failure_;
      if (deadline->passed()) {
        fail(Status(StatusCode::kTimeout, fmt::format("{}: nothing in {}", call.describe_wait(),
                                                      format_duration(timeout))));
      }
    }
    if (!failure_.ok()) return failure_;
  }
  return Status();
}

void Executor::fail(Status cause) {
  assert(!cause.ok());
  if (!failure_.ok()) return;
  failure_ = std::move(cause);
  for (const auto& transport : transports_) transport->abort();
  running_.clear();
  lane_.clear();
}

}  // namespace unisono
