// SPDX-License-Identifier: Apache-2.0
// AllReduceCall: one all-reduce as its caller asks for it, and what is told about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/types.h"
#include "codecs/codec.h"
#include "schedule/algorithm.h"

namespace unisono {

class Feedback;

// One all-reduce. The same on all ranks but for the pointers.
struct AllReduceCall {
  const void* input = nullptr;  // count elements; may equal output (in place), else must not overlap it
  void* output = nullptr;       // count elements
  size_t count = 0;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::optional<Choice> choice = {};  // what must run it; empty: settings, then the selection table
  uint64_t layout = 0;  // hash of what the vector is put together from, to be compared between ranks
  // The codec by name, null: none; used as named, with whatever runs the call. Empty: as `choice`, the
  // settings or the table say.
  std::optional<const Codec*> codec = {};
  double max_error = 0;          // of a codec that the table picks: CodecLimits::max_error
  Feedback* feedback = nullptr;  // of this tensor; used where a codec runs. All ranks have one, or none
};

// ok, or kInvalidArgument for buffers that no call can have. Every call begins with it.
Status check_buffers(const AllReduceCall& call);

// What ran, or would run, a call, and what it costs this rank.
struct CallPlan {
  Choice choice;
  std::string reason;      // "forced by the call", "forced by UNISONO_ALGORITHM", "rule bytes<=8K: one_shot"
  std::string form;        // "schedule", or the name of a direct form; "mapped" where that follows from my buffers
  std::string ran;         // the form that ran my newest call of this kind that has ended; empty: none is remembered
  std::string transport;   // names, joined by '+'; "none" in a world of one
  uint64_t wire_bytes = 0; // payload that this rank sends
  size_t slices = 1;
};

}  // namespace unisono
