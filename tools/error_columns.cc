// SPDX-License-Identifier: Apache-2.0
#include "tools/error_columns.h"

#include <fmt/format.h>

namespace unisono {

std::vector<std::string> error_cells(const Record& r) {
  const auto cost = [&](double CodecCost::*field) {
    return r.codec_cost ? format_us((*r.codec_cost).*field) : "-";
  };
  return {fmt::format("{:.2g}", r.max_error),
          r.relative_error ? fmt::format("{:.2g}", *r.relative_error) : "-",
          cost(&CodecCost::encode_us), cost(&CodecCost::decode_us),
          cost(&CodecCost::break_even_Gbps)};
}

}  // namespace unisono
