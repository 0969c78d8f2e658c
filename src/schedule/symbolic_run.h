// SPDX-License-Identifier: Apache-2.0
// SymbolicRun: the memory of all ranks, holding values instead of numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/event_graph.h"
#include "schedule/finding.h"
#include "schedule/values.h"

namespace unisono {

// Executes events in an order that an EventGraph gave. References must outlive it.
class SymbolicRun {
 public:
  SymbolicRun(std::span<const Schedule> schedules, std::span<const Message> messages,
              std::span<const int> servers, Values& values, bool in_place);

  MaybeFinding execute(const Event& event);
  // All these once all events have been executed.
  // Every output chunk holds each contributor once, added as on rank 0.
  MaybeFinding check_result() const;
  AdditionOrder order() const;
  // The worst chunk's.
  Quantisation quantisation(double relative_error) const;
  // Of an output chunk, on every rank.
  Values::Id result(uint32_t chunk) const { return output(schedules_[0], chunk); }

 private:
  struct Source {
    int rank;
    uint32_t step;
  };

  // A schedule's cells lie space by space, slot by slot, chunk by chunk.
  size_t cell(const Schedule& schedule, Place place, uint32_t chunk) const;
  MaybeFinding read(const Schedule& schedule, uint32_t step, Place place, uint32_t chunk,
                    Values::Id& value) const;
  MaybeFinding send(const Schedule& schedule, uint32_t step);
  MaybeFinding fold(const Schedule& schedule, uint32_t step);
  MaybeFinding end(const Schedule& schedule, uint32_t step);
  int missing_from(Values::Id value) const {
    int rank = 0;
    while (!contributes_[rank] || values_.holds(value, rank)) ++rank;
    return rank;
  }
  Values::Id output(const Schedule& schedule, uint32_t chunk) const {
    return cells_[schedule.rank][cell(schedule, {Space::kOutput}, chunk)];
  }

  std::span<const Schedule> schedules_;
  Values& values_;
  bool in_place_;
  std::vector<bool> contributes_;
  int contributors_;
  std::vector<std::vector<Values::Id>> cells_;              // per rank
  std::vector<std::vector<std::vector<Values::Id>>> sent_;  // per rank and step: a value a chunk
  std::vector<std::vector<std::vector<Source>>> sources_;   // per rank and step, ascending by rank
};

}  // namespace unisono
