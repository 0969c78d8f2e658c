// SPDX-License-Identifier: Apache-2.0
#include "communicator/plan_cache.h"

#include <algorithm>

#include "execute/call_log.h"

namespace unisono {

bool PlanCache::Entry::matches(const AllReduceCall& call) const {
  return count == call.count && type == call.type && op == call.op && layout == call.layout &&
         codec == call.codec && max_error == call.max_error && choice == call.choice;
}

// A training step makes its calls in the same order every time: the entry is the last one found, or the next.
Call* PlanCache::take(const AllReduceCall& call) {
  for (size_t looked = 0; looked < entries_.size(); ++looked, ++last_) {
    if (last_ >= entries_.size()) last_ = 0;
    if (entries_[last_].matches(call)) return take(entries_[last_]);
  }
  return nullptr;
}

Call* PlanCache::insert(const AllReduceCall& call, std::shared_ptr<const Plan> plan) {
  make_room();
  entries_.push_back({call.count, call.type, call.op, call.choice, call.layout, call.codec, call.max_error,
                      std::move(plan), {}, 0});
  return take(entries_.back());
}

const Call* PlanCache::latest(const AllReduceCall& call) const {
  const auto entry = std::ranges::find_if(entries_, [&](const Entry& e) { return e.matches(call); });
  if (entry == entries_.end()) return nullptr;
  const Call* latest = nullptr;
  for (const auto& ended : entry->calls) {
    if (ended->taken) continue;
    if (latest == nullptr || static_cast<int32_t>(ended->sequence() - latest->sequence()) > 0) latest = ended.get();
  }
  return latest;
}

Call* PlanCache::take(Entry& entry) {
  entry.last_use = ++uses_;
  for (const auto& call : entry.calls) {
    if (call->taken) continue;
    call->taken = true;
    return call.get();
  }
  entry.calls.push_back(std::make_unique<Call>(entry.plan, channels_, blocks_, peers_));
  entry.calls.back()->taken = true;
  return entry.calls.back().get();
}

// Stays: a plan whose calls somebody has, and those that the call log still points to.
void PlanCache::make_room() {
  const auto use = [&](const Entry& entry) {
    const bool taken = std::ranges::any_of(entry.calls, [](const auto& call) { return call->taken; });
    return taken || uses_ - entry.last_use < CallLog::kCalls ? UINT64_MAX : entry.last_use;
  };
  while (entries_.size() >= kMostPlans) {
    const auto oldest = std::ranges::min_element(entries_, {}, use);
    if (use(*oldest) == UINT64_MAX) return;
    entries_.erase(oldest);
  }
}

}  // namespace unisono
