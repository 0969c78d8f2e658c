// SPDX-License-Identifier: Apache-2.0
// Planner: from a call to the plan that runs it. The call, the settings or the rules give a choice; the choice
// and the ranks' shape give a schedule; schedule, count, type and op give the plan.
#pragma once

#include <memory>

#include "base/settings.h"
#include "base/status.h"
#include "communicator/all_reduce.h"
#include "communicator/policy.h"
#include "execute/plan.h"
#include "select/codec_limits.h"

namespace unisono {

// One thread at a time. No communication: ranks that make the same calls get the same choices.
class Planner {
 public:
  // As the ranks have found each other.
  struct World {
    Shape shape;         // of this rank, without parameters
    bool shared_memory;  // RuleFacts::shared_memory
    bool direct_forms;   // may run
  };
  // `settings` outlives it.
  Planner(const Settings& settings, Policy policy, World world);

  // kUnsupported: what was asked for cannot serve; the message says what, and who asked.
  Result<std::shared_ptr<const Plan>> plan(const AllReduceCall& call) const;

 private:
  Result<Rules::Match> choose(const AllReduceCall& call) const;
  Result<Rules::Match> choose_algorithm(const AllReduceCall& call) const;
  Result<PlanRequest> request(const AllReduceCall& call, const Rules::Match& match) const;

  const Settings& settings_;
  const Policy policy_;
  const World world_;
  mutable Quantisations quantisations_;
};

}  // namespace unisono
