// SPDX-License-Identifier: Apache-2.0
// Plan: a schedule made ready to run for one count, type and op. Immutable; calls of the same shape
// share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"
#include "codecs/codec.h"
#include "direct/direct.h"
#include "kernels/reduce.h"
#include "schedule/algorithm.h"
#include "schedule/schedule.h"

namespace unisono {

struct Plan {
  Schedule schedule;
  Choice choice;
  std::string reason;  // why this choice
  size_t count = 0;    // elements of the user's vector
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  size_t slices = 1;       // the vector is cut into that many; 0 when it is empty
  size_t depth = 1;        // slices in flight, 1 … slices
  const Codec* codec = nullptr;  // of the schedule's encoded messages; null: there are none
  const DirectForm* direct = nullptr;  // runs in place of the schedule, and gives the same bits
  size_t turns = 0;                    // of the direct form
  const DirectForm* mapped = nullptr;  // runs in place of `direct` where all buffers are mapped
  // All that ranks must agree on, "all_reduce 1024 f32 sum by ring", with what is not as usual; and its hash.
  std::string signature_text;
  uint32_t signature = 0;
  uint32_t divisor = 1;    // for the step that finishes an avg
  ReduceKernel reduce = nullptr;
  ReduceKernel finish = nullptr;          // the same, dividing
  SpreadKernel spread = nullptr;          // and into several outputs
  std::vector<uint32_t> first_successor;  // steps + 1 entries into successors
  std::vector<uint32_t> successors;       // the inverse of Schedule::after
  // Per step: what must happen before its messages are posted, and then before it ends. A recv_reduce
  // writes only when it ends, so it asks for its messages without waiting for my sends of the old value;
  // else two ranks that exchange values would wait for each other (verify.h, rule 3).
  struct Waits {
    uint32_t to_post;  // edges
    uint32_t to_end;   // edges and messages
  };
  std::vector<Waits> waits;

  bool delays_only_the_end(const Step& before, const Step& after) const {
    return before.kind == StepKind::kSend && after.kind == StepKind::kRecvReduce;
  }
  size_t element_size() const { return size_of(type); }
  size_t bytes() const { return count * element_size(); }
  // Elements of the user's vector that these chunks are in a slice.
  ElementRange elements(ChunkRange chunks, size_t slice) const;
  // Payload that this rank sends in the whole call.
  uint64_t wire_bytes() const;
};

struct PlanRequest {
  const Algorithm* algorithm;
  const Codec* codec;  // null: none
  Choice choice;  // depth resolved
  std::string reason;
  Shape shape;
  size_t count;
  DataType type;
  ReduceOp op;
  uint64_t layout = 0;  // of the vector; a part of the signature
  size_t slice_bytes;  // longest piece of a chunk that moves as one message
  bool mapped;         // all ranks map one another's blocks, and may use direct forms
  bool mapped_buffers = false;  // and those for mapped buffers
};

// Precondition: the algorithm supports the shape, and the codec the type and op.
Plan make_plan(const PlanRequest& request);

}  // namespace unisono
