// SPDX-License-Identifier: Apache-2.0
// EventGraph: which event of which rank waits for which, under the rules in verify.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/finding.h"

namespace unisono {

struct Event {
  enum Kind : uint8_t {
    kSliceStart,
    kSliceEnd,
    kStart,   // of a step
    kPosted,  // all of a step's messages are offered to, or asked of, the channels
    kTransfer,
    kEnd,
  };
  Kind kind;
  int rank;        // kTransfer: the receiver
  uint32_t index;  // of the step; kTransfer: of the message
};

// The events of one slice and, since all slices are alike, of all. References must outlive it.
class EventGraph {
 public:
  EventGraph(std::span<const Schedule> schedules, std::span<const Message> messages,
             const VerifyOptions& options);

  // Runs all slices to the end, or explains who waits for whom.
  MaybeFinding run();

  // After run(): the events of the first slice, in an order in which they may happen.
  const std::vector<uint32_t>& order() const { return order_; }
  const Event& event(uint32_t id) const { return events_[id]; }
  // Messages on the longest chain that ends with this event of the first slice.
  uint32_t round(uint32_t id) const { return rounds_[id]; }

 private:
  struct Edge {
    uint32_t from, to;
  };
  enum Offset : uint32_t { kStartOffset, kPostedOffset, kEndOffset, kPerStep };

  uint32_t slice_start(int rank) const { return first_of_rank_[rank]; }
  uint32_t slice_end(int rank) const { return first_of_rank_[rank] + 1; }
  uint32_t step(int rank, uint32_t index, Offset offset) const {
    return first_of_rank_[rank] + 2 + index * kPerStep + offset;
  }
  void add_edge(uint32_t from, uint32_t to) { edges_.push_back({from, to}); }
  void add_events();
  void add_step_edges(const Schedule& schedule);
  void add_credit_edges(const Schedule& schedule);
  void add_message_edges();
  void sort_edges();
  template <typename Visit>
  void for_each_successor(uint32_t slice, uint32_t id, Visit visit) const;
  Finding explain_deadlock(const std::vector<uint32_t>& pending) const;

  std::span<const Schedule> schedules_;
  std::span<const Message> messages_;
  uint32_t slices_, depth_, credits_;
  bool mapped_views_;
  std::vector<Event> events_;
  std::vector<uint32_t> first_of_rank_;
  std::vector<Edge> edges_;           // within a slice, sorted by `from`
  std::vector<uint32_t> first_edge_;  // per event
  std::vector<uint32_t> order_, rounds_;
};

}  // namespace unisono
