// SPDX-License-Identifier: Apache-2.0
// The direct forms that algorithms list in their rows, each list in order of preference.
#pragma once

#include <span>

#include "direct/direct.h"
#include "kernels/move.h"

namespace unisono {

extern const std::span<const DirectForm* const> one_shot_forms;
extern const std::span<const DirectForm* const> sharded_ps_forms;
extern const DirectForm mapped_form;  // of both

inline constexpr int kMostRanks = 64;  // that a form has room for

// A large output that is not also the input goes past the cache.
inline bool streams(const DirectCall& call) {
  return call.input != call.output && should_stream(call.bytes());
}

inline size_t no_turns(const DirectShape&) { return 0; }

}  // namespace unisono
