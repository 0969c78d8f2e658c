// SPDX-License-Identifier: Apache-2.0
// The part of verify() that looks at each rank's steps alone: form and races.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/accesses.h"
#include "schedule/explain.h"
#include "schedule/finding.h"

namespace unisono {
namespace {

// Enough for any schedule that is worth running, and little enough to hold in memory.
constexpr uint64_t kMaxCells = uint64_t{1} << 22;

Finding malformed(std::string explanation) {
  return {Fault::kMalformed, std::move(explanation)};
}

bool in_range(uint64_t first, uint64_t count, uint64_t size) {
  return first + count <= size;
}

// Whether a step of this kind may have such operands and peers.
bool fits_kind(const Schedule& schedule, const Step& step) {
  const Space target = step.target.space, source = step.source.space;
  const auto is_plain = [](Space space) {
    return space != Space::kNone && space != Space::kEncoded;
  };
  const auto is_writable = [](Space space) {
    return space == Space::kOutput || space == Space::kScratch;
  };
  // Its messages are all in the wire format, or none is, as the space says where they begin or end.
  const auto messages_are = [&](Space space) {
    return step.peer_count > 0 &&
           std::ranges::all_of(schedule.peers_of(step), [&](const PeerMessage& peer) {
             return peer.encoded == (space == Space::kEncoded);
           });
  };
  if (step.finishes && step.kind != StepKind::kRecvReduce) return false;
  if (step.residual != Residual::kNone && step.kind != StepKind::kEncode &&
      (step.kind != StepKind::kRecvReduce || step.residual != Residual::kWorker))
    return false;
  switch (step.kind) {
    case StepKind::kCopy:
      return is_writable(target) && is_plain(source) && step.peer_count == 0;
    case StepKind::kSend:
      return target == Space::kNone && source != Space::kNone && messages_are(source);
    case StepKind::kRecv:
      return source == Space::kNone && step.peer_count == 1 && messages_are(target) &&
             (target == Space::kEncoded || is_writable(target));
    case StepKind::kRecvReduce:
      return is_writable(target) && source != Space::kEncoded && step.peer_count > 0;
    case StepKind::kEncode:
      return target == Space::kEncoded && is_plain(source) && step.peer_count == 0;
    case StepKind::kDecode:
      return is_writable(target) && source == Space::kEncoded && step.peer_count == 0;
  }
  return false;
}

bool slot_exists(const Schedule& schedule, Place place) {
  switch (place.space) {
    case Space::kNone:
    case Space::kInput:
    case Space::kOutput:
      return true;
    case Space::kScratch:
      return place.slot < schedule.scratch_slots;
    case Space::kEncoded:
      return place.slot < schedule.encoded_slots;
  }
  return false;
}

bool peers_exist(const Schedule& schedule, const Step& step) {
  int previous = -1;
  for (const PeerMessage& peer : schedule.peers_of(step)) {
    if (peer.rank <= previous || peer.rank >= schedule.size || peer.rank == schedule.rank)
      return false;
    previous = peer.rank;
  }
  return true;
}

// What is wrong with a step, or null.
const char* step_error(const Schedule& schedule, uint32_t index) {
  const Step& step = schedule.steps[index];
  if (step.chunks.count == 0 || !in_range(step.chunks.first, step.chunks.count, schedule.chunks))
    return "its chunks lie outside the vector";
  if (!in_range(step.first_peer, step.peer_count, schedule.peers.size()))
    return "its peers lie outside the list of peers";
  if (!in_range(step.first_after, step.after_count, schedule.after.size()))
    return "its edges lie outside the list of edges";
  if (!slot_exists(schedule, step.target) || !slot_exists(schedule, step.source))
    return "it uses a space or slot that there is not";
  if (!peers_exist(schedule, step)) return "its peers are not other ranks in ascending order";
  if (std::ranges::any_of(schedule.after_of(step), [&](uint32_t first) { return first >= index; }))
    return "it waits for itself or a later step";
  if (!fits_kind(schedule, step)) return "a step of its kind has other operands or peers";
  return nullptr;
}

MaybeFinding check_form(const Schedule& schedule, int rank, const Schedule& first) {
  if (schedule.rank != rank || schedule.size != first.size || schedule.chunks != first.chunks ||
      schedule.collective != first.collective)
    return malformed(
        fmt::format("rank {}: the schedule says rank {} of {} with {} chunks, rank 0's {} with {}",
                    rank, schedule.rank, schedule.size, schedule.chunks, first.size, first.chunks));
  const uint64_t values = uint64_t{2} + schedule.scratch_slots + schedule.encoded_slots;
  if (schedule.chunks == 0 || values * schedule.chunks > kMaxCells)
    return malformed(fmt::format("rank {}: {} chunks: expected from 1 to {}", rank, schedule.chunks,
                                 kMaxCells / values));
  for (uint32_t step = 0; step < schedule.steps.size(); ++step)
    if (const char* error = step_error(schedule, step))
      return malformed(fmt::format("rank {} step {} ({}): {}", rank, step,
                                   name_of(schedule.steps[step].kind), error));
  return std::nullopt;
}

// Whether two steps touch the same memory, one of them writing it.
bool conflict(const Step& a, const Step& b) {
  if (!overlap(a.chunks, b.chunks)) return false;
  if (a.residual != Residual::kNone && a.residual == b.residual) return true;
  const auto same = [](Place x, Place y) {
    return x.space != Space::kNone && memory_of(x) == memory_of(y);
  };
  return same(a.target, b.target) || same(a.target, b.source) || same(a.source, b.target);
}

}  // namespace

std::string where(const Schedule& schedule, size_t step) {
  return fmt::format("rank {} step {} ({})", schedule.rank, step, explain_step(schedule, step));
}

MaybeFinding check_form(std::span<const Schedule> schedules, const VerifyOptions& options) {
  const int size = static_cast<int>(schedules.size());
  if (schedules.empty() || schedules[0].size != size)
    return malformed(fmt::format("{} schedules: expected one of each rank", schedules.size()));
  for (size_t i = 0; i < options.servers.size(); ++i)
    if (options.servers[i] <= (i == 0 ? -1 : options.servers[i - 1]) || options.servers[i] >= size)
      return malformed("servers: expected ranks in ascending order");
  if (static_cast<int>(options.servers.size()) == size)
    return malformed("servers: expected at least one rank that contributes");
  if (options.slices < 1 || options.depth < 1 || options.credits < 0)
    return malformed("expected slices and depth from 1 and credits from 0");
  for (int rank = 0; rank < size; ++rank)
    if (auto finding = check_form(schedules[rank], rank, schedules[0])) return finding;
  return std::nullopt;
}

MaybeFinding check_races(const Schedule& schedule) {
  const size_t steps = schedule.steps.size(), words = (steps + 63) / 64;
  std::vector<uint64_t> before(steps * words,
                               0);  // row s: every step that has ended before s starts
  for (size_t later = 0; later < steps; ++later) {
    uint64_t* row = &before[later * words];
    for (uint32_t first : schedule.after_of(schedule.steps[later])) {
      for (size_t word = 0; word < words; ++word) row[word] |= before[first * words + word];
      row[first / 64] |= uint64_t{1} << (first % 64);
    }
    for (size_t earlier = 0; earlier < later; ++earlier) {
      if (row[earlier / 64] >> (earlier % 64) & 1) continue;
      if (!conflict(schedule.steps[earlier], schedule.steps[later])) continue;
      return Finding{Fault::kRace,
                     fmt::format("{} and {} touch the same memory in no order, and one writes it",
                                 where(schedule, earlier), where(schedule, later))};
    }
  }
  return std::nullopt;
}

}  // namespace unisono
