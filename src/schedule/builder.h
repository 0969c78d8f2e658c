// SPDX-License-Identifier: Apache-2.0
// Builder: an author writes what one rank does, top to bottom; the builder derives the edges.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "schedule/accesses.h"
#include "schedule/schedule.h"
#include "schedule/shape.h"

namespace unisono {

// Whether a reduction's result holds every contributor. verify() checks the claim.
enum class Finish : bool { kNo, kYes };

// My *value* of a chunk is what I hold of it so far: my input, then what I have reduced or received into
// the output. An author speaks of values only; where they live is the builder's matter.
//
// Two steps of which one writes what the other touches keep their order; input and output of a chunk
// count as one place, so that every schedule is right in place too. All other steps may overlap.
// Messages of an ordered pair of ranks are numbered in program order on both sides: the n-th send to a
// peer meets that peer's n-th receive from me.
class Builder {
 public:
  using StepId = uint32_t;

  Builder(const Shape& shape, uint32_t chunks);

  // Sends my value of `chunks`. Precondition: I hold one (a rank that contributes nothing holds none
  // until it has received or reduced), and all of it in one space.
  StepId send(int peer, ChunkRange chunks) { return send(std::span(&peer, 1), chunks); }
  StepId send(std::span<const int> peers, ChunkRange chunks);

  // My value of `chunks` becomes what `peer` sends.
  StepId recv(int peer, ChunkRange chunks);

  // My value of `chunks` becomes the fold of my value (if I hold one) and what each peer sends,
  // operands in rank order.
  StepId recv_reduce(int peer, ChunkRange chunks, Finish finish) {
    return recv_reduce(std::span(&peer, 1), chunks, finish);
  }
  StepId recv_reduce(std::span<const int> peers, ChunkRange chunks, Finish finish);

  // An order that data does not ask for: `then` starts after `first` has ended (a bound on fan-in, a
  // round). Precondition: first < then, and `then` is the newest step.
  void order(StepId first, StepId then);

  bool holds(uint32_t chunk) const { return values_[chunk] != Space::kNone; }

  // Copies what is still in the input to the output (a world of one) and returns the schedule.
  Schedule build() &&;

 private:
  Space value_of(ChunkRange chunks) const;
  StepId add(Step step, std::span<const int> peers, std::vector<uint32_t>& next_message);

  const Shape& shape_;
  Schedule schedule_;
  std::vector<Space> values_;               // per chunk: where my value lives
  std::vector<uint32_t> sent_, received_;   // per peer: messages so far
  Accesses accesses_;
};

}  // namespace unisono
