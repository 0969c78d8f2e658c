// SPDX-License-Identifier: Apache-2.0
// Ranks in a sentence.
#pragma once

#include <string>
#include <vector>

namespace unisono {

// "rank 3", "ranks 1, 2, 5", "ranks 1, 2, … (40 in all)".
std::string rank_list(const std::vector<int>& ranks);

}  // namespace unisono
