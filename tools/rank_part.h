// SPDX-License-Identifier: Apache-2.0
// RankPart: what one rank has of a candidate's measurement. All ranks get the parts of all, and make the same of
// them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "communicator/communicator.h"
#include "tools/check.h"
#include "tools/codec_cost.h"
#include "tools/measure.h"

namespace unisono {

struct RankPart {
  uint64_t wire_bytes = 0;
  CodecCost codec_cost;
  uint64_t hash = 0;  // of all checked results
  Verdict verdict;
  std::vector<double> times_us;
};

// A rank that has failed tells of it when the others expect a measurement.
Status out_of_step(size_t rank);

// Collective: one part a candidate, as many times on all ranks; by candidate, then by rank.
Result<std::vector<std::vector<RankPart>>> exchange_parts(Communicator& communicator,
                                                          std::span<const RankPart> mine);

// Adds all but the plan. `has_floats`: the results were compared with rank 0's reference, where they were checked.
void merge(std::span<const RankPart> ranks, bool checked, bool has_floats, Measurement& measurement);

}  // namespace unisono
