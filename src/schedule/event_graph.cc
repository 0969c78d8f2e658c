// SPDX-License-Identifier: Apache-2.0
#include "schedule/event_graph.h"

#include <fmt/format.h>

#include <algorithm>

namespace unisono {

EventGraph::EventGraph(std::span<const Schedule> schedules, std::span<const Message> messages,
                       const VerifyOptions& options)
    : schedules_(schedules),
      messages_(messages),
      slices_(static_cast<uint32_t>(options.slices)),
      depth_(static_cast<uint32_t>(options.depth)),
      credits_(static_cast<uint32_t>(options.credits)),
      mapped_views_(options.mapped_views) {
  add_events();
  for (const Schedule& schedule : schedules) {
    add_step_edges(schedule);
    if (credits_ > 0) add_credit_edges(schedule);
  }
  add_message_edges();
  sort_edges();
}

void EventGraph::add_events() {
  for (const Schedule& schedule : schedules_) {
    first_of_rank_.push_back(static_cast<uint32_t>(events_.size()));
    events_.push_back({Event::kSliceStart, schedule.rank, 0});
    events_.push_back({Event::kSliceEnd, schedule.rank, 0});
    for (uint32_t index = 0; index < schedule.steps.size(); ++index)
      for (Event::Kind kind : {Event::kStart, Event::kPosted, Event::kEnd})
        events_.push_back({kind, schedule.rank, index});
  }
}

void EventGraph::add_step_edges(const Schedule& schedule) {
  const int rank = schedule.rank;
  add_edge(slice_start(rank), slice_end(rank));
  for (uint32_t index = 0; index < schedule.steps.size(); ++index) {
    const Step& step = schedule.steps[index];
    const uint32_t start = this->step(rank, index, kStartOffset);
    const uint32_t posted = this->step(rank, index, kPostedOffset);
    const uint32_t end = this->step(rank, index, kEndOffset);
    const bool posts_early = step.kind == StepKind::kRecvReduce;
    add_edge(slice_start(rank), start);
    add_edge(posts_early ? slice_start(rank) : start, posted);
    add_edge(start, end);
    add_edge(posted, end);
    add_edge(end, slice_end(rank));
    for (uint32_t first : schedule.after_of(step)) {
      const uint32_t first_end = this->step(rank, first, kEndOffset);
      add_edge(first_end, start);
      if (posts_early && schedule.steps[first].kind != StepKind::kSend) add_edge(first_end, posted);
    }
  }
}

void EventGraph::add_credit_edges(const Schedule& schedule) {
  std::vector<std::vector<uint32_t>> folds(schedules_.size());  // per peer, in program order
  for (uint32_t index = 0; index < schedule.steps.size(); ++index) {
    const Step& step = schedule.steps[index];
    if (step.kind != StepKind::kRecvReduce) continue;
    for (const PeerMessage& peer : schedule.peers_of(step)) {
      std::vector<uint32_t>& earlier = folds[peer.rank];
      if (earlier.size() >= credits_)
        add_edge(this->step(schedule.rank, earlier[earlier.size() - credits_], kEndOffset),
                 this->step(schedule.rank, index, kPostedOffset));
      earlier.push_back(index);
    }
  }
}

void EventGraph::add_message_edges() {
  for (uint32_t index = 0; index < messages_.size(); ++index) {
    const Message& message = messages_[index];
    const uint32_t transfer = static_cast<uint32_t>(events_.size());
    events_.push_back({Event::kTransfer, message.to, index});
    add_edge(step(message.from, message.send, kPostedOffset), transfer);
    add_edge(step(message.to, message.receive, kPostedOffset), transfer);
    const uint32_t received = step(message.to, message.receive, kEndOffset);
    add_edge(transfer, received);
    add_edge(mapped_views_ ? received : transfer, step(message.from, message.send, kEndOffset));
  }
}

// Counting sort by `from`.
void EventGraph::sort_edges() {
  first_edge_.assign(events_.size() + 1, 0);
  for (const Edge& edge : edges_) ++first_edge_[edge.from + 1];
  for (size_t id = 0; id < events_.size(); ++id) first_edge_[id + 1] += first_edge_[id];
  std::vector<uint32_t> next(first_edge_.begin(), first_edge_.end() - 1);
  std::vector<Edge> sorted(edges_.size());
  for (const Edge& edge : edges_) sorted[next[edge.from]++] = edge;
  edges_ = std::move(sorted);
}

template <typename Visit>
void EventGraph::for_each_successor(uint32_t slice, uint32_t id, Visit visit) const {
  for (uint32_t edge = first_edge_[id]; edge < first_edge_[id + 1]; ++edge)
    visit(slice, edges_[edge].to);
  const Event& event = events_[id];
  if (event.kind == Event::kSliceEnd && slice + depth_ < slices_)
    visit(slice + depth_, slice_start(event.rank));
}

MaybeFinding EventGraph::run() {
  const uint32_t count = static_cast<uint32_t>(events_.size());
  std::vector<uint32_t> pending(size_t{slices_} * count, 0);  // events that one still waits for
  for (uint32_t slice = 0; slice < slices_; ++slice)
    for (uint32_t id = 0; id < count; ++id)
      for_each_successor(slice, id,
                         [&](uint32_t s, uint32_t to) { ++pending[size_t{s} * count + to]; });

  rounds_.assign(count, 0);
  order_.clear();
  std::vector<std::pair<uint32_t, uint32_t>> ready;  // (slice, event), a queue from `next` on
  for (uint32_t slice = 0; slice < slices_; ++slice)
    for (uint32_t id = 0; id < count; ++id)
      if (pending[size_t{slice} * count + id] == 0) ready.emplace_back(slice, id);
  for (size_t next = 0; next < ready.size(); ++next) {
    const auto [slice, id] = ready[next];
    if (slice == 0) {
      if (events_[id].kind == Event::kTransfer) ++rounds_[id];
      order_.push_back(id);
    }
    for_each_successor(slice, id, [&, from = id](uint32_t s, uint32_t to) {
      if (s == 0) rounds_[to] = std::max(rounds_[to], rounds_[from]);
      if (--pending[size_t{s} * count + to] == 0) ready.emplace_back(s, to);
    });
  }
  if (ready.size() == pending.size()) return std::nullopt;
  return explain_deadlock(pending);
}

Finding EventGraph::explain_deadlock(const std::vector<uint32_t>& pending) const {
  const uint32_t count = static_cast<uint32_t>(events_.size());
  constexpr size_t kNobody = SIZE_MAX;
  std::vector<size_t> waits_for(pending.size(),
                                kNobody);  // one of those that a stuck event waits for
  size_t at = kNobody;
  for (size_t from = 0; from < pending.size(); ++from) {
    if (pending[from] == 0) continue;
    at = from;
    for_each_successor(static_cast<uint32_t>(from / count), static_cast<uint32_t>(from % count),
                       [&](uint32_t s, uint32_t to) { waits_for[size_t{s} * count + to] = from; });
  }
  // Every stuck event waits for a stuck one, so this walk gets into a circle.
  for (size_t walked = 0; walked < pending.size(); ++walked) at = waits_for[at];
  constexpr size_t kShown = 8;
  std::vector<std::string> names;
  const size_t begin = at;
  do {
    const Event& event = events_[at % count];
    if (event.kind == Event::kStart || event.kind == Event::kPosted || event.kind == Event::kEnd) {
      std::string name = where(schedules_[event.rank], event.index);
      if (names.empty() || names.back() != name) names.push_back(std::move(name));
    }
    at = waits_for[at];
  } while (at != begin);
  if (names.size() > kShown) {
    names.resize(kShown);
    names.push_back("…");
  }
  return {Fault::kDeadlock, fmt::format("{} waits for the first: no rank can go on",
                                        fmt::join(names, " waits for "))};
}

}  // namespace unisono
