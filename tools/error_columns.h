// SPDX-License-Identifier: Apache-2.0
// The columns that bench and compare add where a codec runs: its error, its cost, and when it pays.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/record.h"
#include "tools/table.h"

namespace unisono {

inline const std::vector<Column> kErrorColumns{{"max error", 9}, {"of bound", 8},
                                               {"rel. L2", 8},   {"encode µs", 9},
                                               {"decode µs", 9}, {"even Gbit/s", 11}};

inline constexpr std::string_view kErrorLegend =
    "# errors are against the float64 result; of bound: 1 would be the largest that codec and "
    "schedule "
    "allow; encode, decode: of one vector by one rank; even: "
    "slower "
    "links gain by the codec\n";

std::vector<std::string> error_cells(const Record& record);

}  // namespace unisono
