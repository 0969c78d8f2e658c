// SPDX-License-Identifier: Apache-2.0
// What a codec costs and saves a call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"
#include "schedule/algorithm.h"

namespace unisono {

struct CodecCost {
  double encode_us = 0, decode_us = 0;  // of one vector of the call, by one rank
  // The link rate at which a rank's codec work takes as long as its saved bytes would: slower links
  // gain. 0 where nothing is saved.
  double break_even_Gbps = 0;
};

// Times the codec on `values` (count float32). `shape` is my rank's; the bytes are what it sends
// without and with the codec.
CodecCost measure_codec(const Codec& codec, const float* values, size_t count,
                        const Algorithm& algorithm, const Shape& shape, CodecLinks links,
                        uint64_t plain_bytes, uint64_t wire_bytes);

}  // namespace unisono
