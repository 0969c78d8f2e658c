// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/control.h"

namespace unisono {
namespace {

using std::chrono::milliseconds;

// A consequence waits that long for its cause, which is on its way.
constexpr milliseconds kCausePatience(300);
// A mismatch, for what the other ranks say of their calls: there is no hurry, and they may be busy.
constexpr milliseconds kStatementPatience(2000);
// For all of it: rank 0 may be busy too.
constexpr milliseconds kPatience(3000);

}  // namespace

Status Control::verdict() const {
  if ((news() & kVerdict) == 0) return Status();
  const std::lock_guard lock(mutex_);
  return verdict_;
}

void Control::state(std::string statement) {
  news_.fetch_and(~kAsked, std::memory_order_relaxed);
  tell(Word::kStatement, Status(), std::move(statement));
}

Status Control::agree(const Status& cause, std::string statement) {
  const Deadline deadline = Deadline::after(kPatience);
  const bool mismatch = cause.code() == StatusCode::kMismatch;
  if (mismatch || cause.code() == StatusCode::kPeerFailed) {
    tell(Word::kSuspicion, cause, std::move(statement));
    if (!await_verdict(mismatch ? kStatementPatience : kCausePatience))
      tell(Word::kFailure, cause, {});
  } else {
    tell(Word::kFailure, cause, std::move(statement));
  }
  return await_verdict(deadline.left()) ? verdict() : cause;
}

void Control::decide(const Status& verdict) {
  const std::lock_guard lock(mutex_);
  if (!verdict_.ok()) return;
  verdict_ = verdict;
  news_.fetch_or(kVerdict, std::memory_order_release);
  changed_.notify_all();
}

bool Control::await_verdict(std::chrono::nanoseconds longest) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, longest, [&] { return !verdict_.ok(); });
}

}  // namespace unisono
