// SPDX-License-Identifier: Apache-2.0
// The table of algorithms.
#pragma once

#include <string_view>

#include "schedule/algorithm.h"

namespace unisono {

AlgorithmTable algorithms();

// Null when there is none of that name.
const Algorithm* find_algorithm(std::string_view name);

}  // namespace unisono
