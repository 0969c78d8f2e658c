// SPDX-License-Identifier: Apache-2.0
// Sweeps: the small language of sizes and rank counts on the command line.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace unisono {

// A comma list of sizes and ranges: "8", "8,64K,1M", "8:64M:x4", "8:64K:+8K"; "8:64M" means x2. A
// range holds its LAST even where the steps jump over it. At most 10000 values, in the order given.
// Errors: kInvalidArgument, "TEXT: expected …".
Result<std::vector<uint64_t>> parse_byte_sweep(std::string_view text);

// The same for rank counts (plain numbers from 1 to 65536); "1:64" means +1.
Result<std::vector<int>> parse_rank_sweep(std::string_view text);

}  // namespace unisono
