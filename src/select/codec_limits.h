// SPDX-License-Identifier: Apache-2.0
// Which codecs the runtime may pick for a call that names none, and what a codec does to a sum.
#pragma once

#include "base/status.h"
#include "base/types.h"
#include "schedule/algorithm.h"
#include "schedule/verify.h"

namespace unisono {

// What a call says of codecs that it does not name.
struct CodecLimits {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  // The most that the error may grow, where 1 is the largest sum that the largest |contribution|
  // allows (avg: the largest |contribution|). 0: no codec.
  double max_error = 0;
};

// Of a codec by name in the algorithm's schedules; all zero for "none". Costly with many ranks.
// Errors: kInvalidArgument for an unknown codec.
Result<Quantisation> quantisation_of(const Algorithm& algorithm, const Shape& shape,
                                     std::string_view codec);

// Ok, or why the runtime must not pick this codec: the call does not allow it, it does not serve
// the type or op, or contributions would be encoded more often than it advises.
Status check_codec(const Algorithm& algorithm, const Shape& shape, std::string_view codec,
                   const CodecLimits& limits);

}  // namespace unisono
