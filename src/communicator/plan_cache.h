// SPDX-License-Identifier: Apache-2.0
// PlanCache: repeated calls of one shape do no set-up work. Bounded; keyed by shape, never by
// pointer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"
#include "communicator/communicator.h"
#include "execute/call.h"
#include "execute/plan.h"

namespace unisono {

// One thread at a time.
class PlanCache {
 public:
  // The least recently used plan goes first; more stay only as long as their calls run.
  static constexpr size_t kMostPlans = 128;

  PlanCache(std::span<Channel* const> channels, std::span<DirectBlock* const> blocks, std::span<const int> peers)
      : channels_(channels), blocks_(blocks), peers_(peers) {}

  // A call that nobody has, made or used again; null where no plan is for this count, type, op, choice, layout,
  // codec and max_error. It stays the cache's, and is the taker's until it is given back: after it has finished
  // without failure.
  Call* take(const AllReduceCall& call);
  // The same, where there is none, by this plan.
  Call* insert(const AllReduceCall& call, std::shared_ptr<const Plan> plan);
  static void give_back(Call& call) { call.taken = false; }
  // The newest of such calls that were given back; null where there is none.
  const Call* latest(const AllReduceCall& call) const;

 private:
  struct Entry {
    size_t count;
    DataType type;
    ReduceOp op;
    std::optional<Choice> choice;  // as the caller gave it
    uint64_t layout;
    std::optional<const Codec*> codec;
    double max_error;
    std::shared_ptr<const Plan> plan;
    std::vector<std::unique_ptr<Call>> calls;
    uint64_t last_use;
    bool matches(const AllReduceCall& call) const;
  };
  Call* take(Entry& entry);
  void make_room();

  const std::span<Channel* const> channels_;
  const std::span<DirectBlock* const> blocks_;
  const std::span<const int> peers_;
  std::vector<Entry> entries_;
  size_t last_ = 0;  // where the search begins: at the entry that was found last
  uint64_t uses_ = 0;
};

}  // namespace unisono
