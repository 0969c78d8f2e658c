// SPDX-License-Identifier: Apache-2.0
// Which codecs the runtime may combine with an algorithm that it picks, and what a codec does to a
// sum.
#pragma once

#include <optional>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "codecs/codec.h"
#include "schedule/algorithm.h"
#include "schedule/verify.h"

namespace unisono {

// What a call says of codecs.
struct CodecLimits {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  // The most that the error may grow, where 1 is the largest sum that the largest |contribution|
  // allows (avg: the largest |contribution|). 0: no codec.
  double max_error = 0;
  std::optional<const Codec*> codec = {};  // named for this call, null: none; whatever its error
};

// The choice as it runs on the shape's hosts: without a codec that is for links between hosts,
// where there are none.
Choice on_hosts(Choice choice, const Shape& shape);

// Of a codec in the algorithm's schedules; all zero for none. Costly with many ranks. kUnsupported
// where ranks would end with other bits, since the codec is not on all links.
Result<Quantisation> quantisation_of(const Algorithm& algorithm, const Shape& shape,
                                     const Codec* codec, CodecLinks links = CodecLinks::kAll);

// Remembers quantisation_of for one communicator: shapes differ in rank and parameters only. One
// thread at a time.
class Quantisations {
 public:
  Result<Quantisation> of(const Algorithm& algorithm, const Shape& shape, const Codec* codec,
                          CodecLinks links);

 private:
  struct Entry {
    const Algorithm* algorithm;
    Parameters parameters;
    const Codec* codec;
    CodecLinks links;
    Result<Quantisation> quantisation;
  };
  std::vector<Entry> entries_;
};

// Ok, or why the runtime must not pick the algorithm with this codec: the call does not allow its
// error, it does not serve the type or op, or contributions would be encoded more often than it
// advises.
Status check_codec(const Algorithm& algorithm, const Shape& shape, const Codec* codec,
                   CodecLinks links, const CodecLimits& limits, Quantisations& known);

}  // namespace unisono
