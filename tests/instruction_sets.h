// SPDX-License-Identifier: Apache-2.0
// Runs a test on every instruction set that this CPU has and the kernels are compiled for.
#pragma once

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <functional>
#include <vector>

namespace unisono {

// The baseline is among them, under whichever name the compiler's version gives it.
inline std::vector<int64_t> instruction_sets() {
  std::vector<int64_t> sets;
  const int64_t usable = hwy::SupportedTargets() | HWY_SCALAR | HWY_EMU128;
  for (int64_t rest = usable & HWY_TARGETS; rest != 0; rest &= rest - 1)
    sets.push_back(rest & -rest);
  return sets;
}

// Kernels must be looked up inside `body`. Stops at the first set that fails.
inline void on_every_instruction_set(const std::function<void()>& body) {
  for (int64_t set : instruction_sets()) {
    SCOPED_TRACE(hwy::TargetName(set));
    hwy::SetSupportedTargetsForTest(set);
    body();
    if (testing::Test::HasFailure()) break;
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace unisono
