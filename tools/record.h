// SPDX-License-Identifier: Apache-2.0
// Record: a measured row as the tools write it for other programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/types.h"
#include "tools/codec_cost.h"
#include "tools/statistics.h"

namespace unisono {

struct Record {
  std::string algorithm;  // with its parameters and depth
  std::string codec;
  std::string form;  // that ran the last call
  DataType dtype;
  ReduceOp op;
  int ranks, hosts;
  std::string transport;
  uint64_t bytes, count;
  bool in_place;
  Statistics time_us;
  uint64_t wire_bytes;                   // that the busiest rank sends
  uint64_t wrong;                        // elements, over all ranks and checked calls
  double max_error;                      // against the float64 reference
  std::optional<double> relative_error;  // L2; through a codec, or of a user's data
  std::optional<double> share_of_bound;  // the largest error, where its bound is 1; as above
  std::optional<CodecCost> codec_cost;
  bool bit_identical;
};

// One object on one line, without the newline. An infinite error is null.
std::string to_json(const Record& record);

// The same fields, with those of time_us flattened; without newlines.
std::string csv_header();
std::string to_csv(const Record& record);

}  // namespace unisono
