// SPDX-License-Identifier: Apache-2.0
// Two passes over the steps of a rank: what becomes of each value (versions.h), then the steps with the codec in.
#include "schedule/quantise.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>

#include "schedule/accesses.h"
#include "schedule/versions.h"

namespace unisono {
namespace {

// Marks the chunks whose result this rank sends.
void mark_results_sent(const Schedule& schedule, std::vector<bool>& sent) {
  std::vector<bool> finished(schedule.chunks, false);
  for (const Step& step : schedule.steps) {
    for (uint32_t c = step.chunks.first; c < end_of(step.chunks); ++c) {
      if (step.kind == StepKind::kSend && finished[c]) sent[c] = true;
      if (step.kind == StepKind::kRecv || step.finishes) finished[c] = true;
    }
  }
}

class Quantiser {
 public:
  explicit Quantiser(const QuantiseTask& task);
  Schedule run() &&;

 private:
  static constexpr Place kSlot{Space::kEncoded, 0};

  void send(const Step& step);
  void receive(const Step& step);
  void fold(const Step& step);
  void copy_to_output(ChunkRange chunks);
  void prepare(ChunkRange chunks);
  void decode(ChunkRange chunks);
  Place numbers(ChunkRange chunks);
  void next_version(ChunkRange chunks, bool in_slot);
  uint32_t add(Step step, std::span<const PeerMessage> peers = {});

  const QuantiseTask task_;
  const Schedule& plain_;
  Versions versions_;
  std::vector<Space> space_;   // per chunk: where its present version is as numbers,
  std::vector<bool> in_slot_;  // and whether it is in the slot
  Schedule result_;
  Accesses accesses_;
  std::vector<uint32_t> orders_;  // edges of the present old step that the author asked for
  std::vector<std::vector<uint32_t>> moved_by_;  // per old step: the new ones that move its messages
};

Quantiser::Quantiser(const QuantiseTask& task)
    : task_(task),
      plain_(task.plain),
      versions_(task),
      space_(plain_.chunks, Space::kInput),
      in_slot_(plain_.chunks, false) {
  result_.collective = plain_.collective;
  result_.rank = plain_.rank;
  result_.size = plain_.size;
  result_.chunks = plain_.chunks;
  result_.scratch_slots = plain_.scratch_slots;
  result_.encoded_slots = 1;
}

// Visits the longest runs of chunks with equal keys.
template <typename Key, typename Visit>
void for_each_run(ChunkRange chunks, Key key, Visit visit) {
  for (uint32_t first = chunks.first; first < end_of(chunks);) {
    uint32_t last = first + 1;
    while (last < end_of(chunks) && key(last) == key(first)) ++last;
    visit(ChunkRange{first, last - first});
    first = last;
  }
}

uint32_t Quantiser::add(Step step, std::span<const PeerMessage> peers) {
  const auto id = static_cast<uint32_t>(result_.steps.size());
  step.first_peer = static_cast<uint32_t>(result_.peers.size());
  step.peer_count = static_cast<uint32_t>(peers.size());
  result_.peers.insert(result_.peers.end(), peers.begin(), peers.end());
  step.first_after = static_cast<uint32_t>(result_.after.size());
  accesses_.add(step, id, result_.after);
  if (step.peer_count > 0) {
    for (const uint32_t old : orders_) {
      for (const uint32_t before : moved_by_[old]) {
        const auto mine = std::span(result_.after).subspan(step.first_after);
        if (std::ranges::count(mine, before) == 0) result_.after.push_back(before);
      }
    }
    moved_by_.back().push_back(id);
  }
  step.after_count = static_cast<uint32_t>(result_.after.size()) - step.first_after;
  result_.steps.push_back(step);
  return id;
}

// Brings the present values of these chunks into the form in which they are used from now on.
void Quantiser::prepare(ChunkRange chunks) {
  const auto key = [&](uint32_t c) {
    return std::tuple(versions_.at(c).is_encoded && !in_slot_[c], space_[c], versions_.at(c).residual,
                      versions_.at(c).is_used);
  };
  for_each_run(chunks, key, [&](ChunkRange run) {
    const Version& v = versions_.at(run.first);
    if (!v.is_encoded || in_slot_[run.first]) return;
    add({.kind = StepKind::kEncode,
         .residual = v.residual,
         .chunks = run,
         .target = kSlot,
         .source = {space_[run.first]}});
    std::fill_n(in_slot_.begin() + run.first, run.count, true);
    if (v.is_used) decode(run);
  });
}

void Quantiser::decode(ChunkRange chunks) {
  add({.kind = StepKind::kDecode, .chunks = chunks, .target = {Space::kOutput}, .source = kSlot});
  std::fill_n(space_.begin() + chunks.first, chunks.count, Space::kOutput);
}

void Quantiser::copy_to_output(ChunkRange chunks) {
  for_each_run(
      chunks, [&](uint32_t c) { return space_[c]; },
      [&](ChunkRange run) {
        if (space_[run.first] != Space::kInput) return;
        add({.kind = StepKind::kCopy,
             .chunks = run,
             .target = {Space::kOutput},
             .source = {Space::kInput}});
        std::fill_n(space_.begin() + run.first, run.count, Space::kOutput);
      });
}

// Where these chunks are as numbers, all in one space.
Place Quantiser::numbers(ChunkRange chunks) {
  for (uint32_t c = chunks.first; c < end_of(chunks); ++c)
    if (space_[c] != space_[chunks.first]) copy_to_output(chunks);
  return {space_[chunks.first]};
}

void Quantiser::next_version(ChunkRange chunks, bool in_slot) {
  for (uint32_t c = chunks.first; c < end_of(chunks); ++c) {
    versions_.advance(c);
    in_slot_[c] = in_slot;
    space_[c] = Space::kOutput;
  }
}

void Quantiser::send(const Step& step) {
  prepare(step.chunks);
  std::vector<PeerMessage> encoded, plain;
  const bool result = versions_.finished(step.chunks);
  for (PeerMessage peer : plain_.peers_of(step)) {
    peer.encoded = task_.is_encoded(plain_.rank, peer.rank, result);
    (peer.encoded ? encoded : plain).push_back(peer);
  }
  Step message{.kind = StepKind::kSend, .chunks = step.chunks, .source = kSlot};
  if (!encoded.empty()) add(message, encoded);
  if (plain.empty()) return;
  message.source = numbers(step.chunks);
  add(message, plain);
}

void Quantiser::receive(const Step& step) {
  PeerMessage peer = plain_.peers_of(step)[0];
  peer.encoded = true;
  add({.kind = StepKind::kRecv, .chunks = step.chunks, .target = kSlot}, std::span(&peer, 1));
  next_version(step.chunks, true);
  for_each_run(
      step.chunks, [&](uint32_t c) { return versions_.at(c).is_used; },
      [&](ChunkRange run) {
        if (versions_.at(run.first).is_used) decode(run);
      });
}

void Quantiser::fold(const Step& step) {
  Step result{.kind = StepKind::kRecvReduce,
              .finishes = step.finishes,
              .chunks = step.chunks,
              .target = {Space::kOutput}};
  if (step.source.space != Space::kNone) {
    prepare(step.chunks);
    result.source = numbers(step.chunks);
  }
  next_version(step.chunks, false);
  bool takes_worker = true;
  for (uint32_t c = step.chunks.first; c < end_of(step.chunks); ++c)
    takes_worker &= versions_.at(c).takes_worker;
  if (takes_worker) result.residual = Residual::kWorker;
  std::vector<PeerMessage> peers;
  for (PeerMessage peer : plain_.peers_of(step)) {
    peer.encoded = task_.is_encoded(peer.rank, plain_.rank, task_.sole);
    peers.push_back(peer);
  }
  add(result, peers);
  if (step.finishes) prepare(step.chunks);
}

Schedule Quantiser::run() && {
  Accesses old_accesses;
  std::vector<uint32_t> due_to_memory;
  for (uint32_t old = 0; old < plain_.steps.size(); ++old) {
    const Step& step = plain_.steps[old];
    due_to_memory.clear();
    old_accesses.add(step, old, due_to_memory);
    orders_.clear();
    for (const uint32_t before : plain_.after_of(step))
      if (std::ranges::count(due_to_memory, before) == 0) orders_.push_back(before);
    moved_by_.emplace_back();
    switch (step.kind) {
      case StepKind::kSend: send(step); break;
      case StepKind::kRecv: receive(step); break;
      case StepKind::kRecvReduce: fold(step); break;
      case StepKind::kCopy: copy_to_output(step.chunks); break;
      case StepKind::kEncode:
      case StepKind::kDecode: assert(false && "a schedule with a codec in it");
    }
  }
  if (!std::ranges::any_of(result_.steps, [](const Step& step) { return step.target == kSlot; }))
    result_.encoded_slots = 0;
  return std::move(result_);
}

std::vector<bool> results_sent_by(std::span<const Schedule> schedules) {
  std::vector<bool> sent(schedules[0].chunks, false);
  for (const Schedule& schedule : schedules) mark_results_sent(schedule, sent);
  return sent;
}

}  // namespace

OnLink on_links(CodecLinks links, const Shape& shape) {
  if (links == CodecLinks::kAll) return {};
  return [groups = shape.groups](int from, int to) {
    return !groups.empty() && groups[static_cast<size_t>(from)] != groups[static_cast<size_t>(to)];
  };
}

std::vector<Schedule> quantise(std::span<const Schedule> schedules, int contributors,
                               const OnLink& on_link) {
  const std::vector<bool> sent = results_sent_by(schedules);
  std::vector<Schedule> quantised;
  for (const Schedule& schedule : schedules)
    quantised.push_back(Quantiser({schedule, contributors == 1, sent, on_link}).run());
  return quantised;
}

Schedule build_quantised(const Algorithm& algorithm, const Shape& shape, const OnLink& on_link) {
  const Schedule mine = algorithm.build(shape);
  std::vector<bool> sent = results_sent_by(std::span(&mine, 1));
  // Others matter for results that I compute and do not send.
  const auto unknown = [&] {
    return std::ranges::any_of(mine.steps, [&](const Step& step) {
      for (uint32_t c = step.chunks.first; step.finishes && c < end_of(step.chunks); ++c)
        if (!sent[c]) return true;
      return false;
    });
  };
  Shape other = shape;
  for (other.rank = 0; other.rank < shape.size && unknown(); ++other.rank)
    if (other.rank != shape.rank) mark_results_sent(algorithm.build(other), sent);
  return Quantiser({mine, shape.contributors() == 1, sent, on_link}).run();
}

}  // namespace unisono
