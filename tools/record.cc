// SPDX-License-Identifier: Apache-2.0
#include "tools/record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace unisono {
namespace {

using Json = nlohmann::ordered_json;

Json fields_of(const Record& r) {
  return {
      {"collective", name_of(Collective::kAllReduce)},
      {"algorithm", r.algorithm},
      {"codec", r.codec},
      {"form", r.form},
      {"dtype", name_of(r.dtype)},
      {"op", name_of(r.op)},
      {"ranks", r.ranks},
      {"hosts", r.hosts},
      {"transport", r.transport},
      {"bytes", r.bytes},
      {"count", r.count},
      {"in_place", r.in_place},
      {"time_us", {{"min", r.time_us.min}, {"median", r.time_us.median}, {"p99", r.time_us.p99}}},
      {"algbw_GBps", algbw_GBps(r.bytes, r.time_us.median)},
      {"busbw_GBps", busbw_GBps(r.bytes, r.time_us.median, r.ranks)},
      {"wire_bytes", r.wire_bytes},
      {"wrong", r.wrong},
      {"max_error", r.max_error},
      {"relative_error", r.relative_error ? Json(*r.relative_error) : Json()},
      {"share_of_bound", r.share_of_bound ? Json(*r.share_of_bound) : Json()},
      {"encode_us", r.codec_cost ? Json(r.codec_cost->encode_us) : Json()},
      {"decode_us", r.codec_cost ? Json(r.codec_cost->decode_us) : Json()},
      {"break_even_Gbps", r.codec_cost ? Json(r.codec_cost->break_even_Gbps) : Json()},
      {"bit_identical", r.bit_identical}};
}

// Calls `visit(name, value)` for every field, nested ones as "outer_inner".
template <typename Visit>
void for_each_column(const Json& fields, Visit visit) {
  for (const auto& [name, value] : fields.items()) {
    if (!value.is_object()) {
      visit(name, value);
      continue;
    }
    for (const auto& [inner, inner_value] : value.items()) visit(name + "_" + inner, inner_value);
  }
}

}  // namespace

std::string to_json(const Record& record) {
  return fields_of(record).dump();
}

std::string csv_header() {
  std::string line;
  for_each_column(fields_of(Record{}), [&](const std::string& name, const Json&) {
    line += (line.empty() ? "" : ",") + name;
  });
  return line;
}

std::string to_csv(const Record& record) {
  std::string line;
  for_each_column(fields_of(record), [&](const std::string&, const Json& value) {
    // Names hold commas and blanks (parameters), never quotes.
    const std::string text = value.is_null() ? "" : value.dump();
    const bool plain = value.is_string() && text.find_first_of(", ") == std::string::npos;
    line += (line.empty() ? "" : ",") + (plain ? text.substr(1, text.size() - 2) : text);
  });
  return line;
}

}  // namespace unisono
