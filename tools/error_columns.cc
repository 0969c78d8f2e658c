// SPDX-License-Identifier: Apache-2.0
#include "tools/error_columns.h"

#include <fmt/format.h>

namespace unisono {

std::vector<std::string> error_cells(const Record& r) {
  const auto cost = [&](double CodecCost::*field) {
    return r.codec_cost ? format_us((*r.codec_cost).*field) : "-";
  };
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.2g}", *value) : "-";
  };
  return {number(r.max_error),         number(r.share_of_bound),
          number(r.relative_error),    cost(&CodecCost::encode_us),
          cost(&CodecCost::decode_us), cost(&CodecCost::break_even_Gbps)};
}

}  // namespace unisono
