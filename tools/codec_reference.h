// SPDX-License-Identifier: Apache-2.0
// CodecReference: what an all-reduce of float32 must give through a codec, to the bit, and how far
// that may be from the exact result. Computed from the schedules of all ranks, value by value,
// without channels or executor.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "codecs/codec.h"
#include "schedule/algorithm.h"
#include "schedule/values.h"
#include "tools/check.h"

namespace unisono {

// Elements [first, first + count) of a rank's input.
using RankInput = std::function<void(int rank, size_t first, size_t count, float* values)>;

class CodecReference {
 public:
  // A null codec is none. `shape` is that of any rank, and the algorithm supports it.
  CodecReference(const Algorithm& algorithm, const Shape& shape, const Codec* codec, ReduceOp op,
                 CodecLinks links = CodecLinks::kAll);

  // Checks a rank's result, of a call that ran in so many slices. Wrong are elements with other
  // bits, and elements beyond the bound: the codec's, of the values that it met, through all sums
  // that follow.
  Verdict check(const RankInput& input, const float* output, size_t count, size_t slices) const;

 private:
  struct Number;
  Number evaluate(Values::Id id, const RankInput& input, size_t first, size_t count) const;
  Number fold(Values::Id id, const RankInput& input, size_t first, size_t count) const;
  void check_part(Values::Id id, const RankInput& input, const float* output, size_t first,
                  size_t count, Verdict& verdict) const;

  const Codec* const codec_;
  const ReduceOp op_;
  const int ranks_;
  std::vector<int> contributors_;
  Values values_;
  std::vector<Values::Id> results_;  // a chunk
};

}  // namespace unisono
