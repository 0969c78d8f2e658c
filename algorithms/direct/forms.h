// SPDX-License-Identifier: Apache-2.0
// The direct forms that algorithms list in their rows, each list in order of preference.
#pragma once

#include <span>

#include "direct/direct.h"

namespace unisono {

extern const std::span<const DirectForm* const> one_shot_forms;
extern const std::span<const DirectForm* const> sharded_ps_forms;
extern const DirectForm mapped_form;  // of both

inline constexpr int kMostRanks = 64;  // that a form has room for

inline size_t no_turns(const DirectShape&) { return 0; }

}  // namespace unisono
