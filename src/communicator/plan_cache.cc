// SPDX-License-Identifier: Apache-2.0
#include "communicator/plan_cache.h"

#include <algorithm>

namespace unisono {

std::shared_ptr<const Plan> PlanCache::find(const AllReduceCall& call) {
  for (Entry& entry : entries_) {
    if (entry.count != call.count || entry.type != call.type || entry.op != call.op ||
        entry.layout != call.layout || entry.choice != call.choice ||
        entry.codec != call.codec || entry.max_error != call.max_error)
      continue;
    entry.last_use = ++uses_;
    return entry.plan;
  }
  return nullptr;
}

void PlanCache::insert(const AllReduceCall& call, std::shared_ptr<const Plan> plan) {
  if (entries_.size() == kMostPlans)
    entries_.erase(std::ranges::min_element(entries_, {}, &Entry::last_use));
  entries_.push_back({call.count, call.type, call.op, call.choice, call.layout, call.codec,
                      call.max_error, std::move(plan), {}, ++uses_});
}

PlanCache::Entry* PlanCache::entry_of(const Plan& plan) {
  const auto found =
      std::ranges::find(entries_, &plan, [](const Entry& e) { return e.plan.get(); });
  return found == entries_.end() ? nullptr : &*found;
}

std::unique_ptr<Call> PlanCache::take_call(const std::shared_ptr<const Plan>& plan) {
  Entry* entry = entry_of(*plan);
  if (entry == nullptr || entry->idle.empty()) return std::make_unique<Call>(plan, channels_, blocks_);
  std::unique_ptr<Call> call = std::move(entry->idle.back());
  entry->idle.pop_back();
  return call;
}

void PlanCache::give_back(std::unique_ptr<Call> call) {
  // A plan that has left the cache takes its calls with it.
  if (Entry* entry = entry_of(call->plan())) entry->idle.push_back(std::move(call));
}

}  // namespace unisono
