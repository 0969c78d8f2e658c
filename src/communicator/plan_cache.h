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
  // The least recently used plan goes first, so the plans of the last kMostPlans − 1 calls are here.
  static constexpr size_t kMostPlans = 128;

  PlanCache(std::span<Channel* const> channels, std::span<DirectBlock* const> blocks)
      : channels_(channels), blocks_(blocks) {}

  // Null when there is none for a call of this count, type, op, choice, layout, codec and max_error.
  std::shared_ptr<const Plan> find(const AllReduceCall& call);
  void insert(const AllReduceCall& call, std::shared_ptr<const Plan> plan);

  // A call that is not running, made or used again.
  std::unique_ptr<Call> take_call(const std::shared_ptr<const Plan>& plan);
  // Gives back a call that has finished without failure.
  void give_back(std::unique_ptr<Call> call);

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
    std::vector<std::unique_ptr<Call>> idle;
    uint64_t last_use;
  };
  Entry* entry_of(const Plan& plan);

  const std::span<Channel* const> channels_;
  const std::span<DirectBlock* const> blocks_;
  std::vector<Entry> entries_;
  uint64_t uses_ = 0;
};

}  // namespace unisono
