// SPDX-License-Identifier: Apache-2.0
#include "schedule/symbolic_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/explain.h"

namespace unisono {
namespace {

using Id = Values::Id;

std::string chunk_of(const Schedule& schedule, size_t step, uint32_t chunk) {
  return fmt::format("{}, chunk {}", where(schedule, step), chunk);
}

}  // namespace

SymbolicRun::SymbolicRun(std::span<const Schedule> schedules, std::span<const Message> messages,
                         std::span<const int> servers, Values& values, bool in_place)
    : schedules_(schedules),
      values_(values),
      in_place_(in_place),
      contributes_(schedules.size(), true),
      contributors_(static_cast<int>(schedules.size() - servers.size())) {
  for (int server : servers) contributes_[server] = false;
  for (const Schedule& schedule : schedules) {
    const size_t slots = size_t{2} + schedule.scratch_slots + schedule.encoded_slots;
    std::vector<Id>& cells = cells_.emplace_back(slots * schedule.chunks, Values::kNone);
    if (contributes_[schedule.rank])
      for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk)
        cells[cell(schedule, {Space::kInput}, chunk)] = values_.contribution(schedule.rank);
    sent_.emplace_back(schedule.steps.size());
    sources_.emplace_back(schedule.steps.size());
  }
  for (const Message& message : messages)  // ascending by sender
    sources_[message.to][message.receive].push_back({message.from, message.send});
}

size_t SymbolicRun::cell(const Schedule& schedule, Place place, uint32_t chunk) const {
  size_t slot = 0;
  switch (place.space) {
    case Space::kNone:
    case Space::kInput:
      slot = in_place_ ? 1 : 0;
      break;
    case Space::kOutput:
      slot = 1;
      break;
    case Space::kScratch:
      slot = size_t{2} + place.slot;
      break;
    case Space::kEncoded:
      slot = size_t{2} + schedule.scratch_slots + place.slot;
      break;
  }
  return slot * schedule.chunks + chunk;
}

MaybeFinding SymbolicRun::read(const Schedule& schedule, uint32_t step, Place place, uint32_t chunk,
                               Id& value) const {
  value = cells_[schedule.rank][cell(schedule, place, chunk)];
  if (value != Values::kNone) return std::nullopt;
  return Finding{Fault::kReadBeforeWrite,
                 fmt::format("{}: the {} holds nothing yet", chunk_of(schedule, step, chunk),
                             to_string(place))};
}

MaybeFinding SymbolicRun::send(const Schedule& schedule, uint32_t index) {
  const Step& step = schedule.steps[index];
  for (uint32_t i = 0; i < step.chunks.count; ++i) {
    Id& value = sent_[schedule.rank][index].emplace_back();
    if (auto finding = read(schedule, index, step.source, step.chunks.first + i, value))
      return finding;
  }
  return std::nullopt;
}

MaybeFinding SymbolicRun::fold(const Schedule& schedule, uint32_t index) {
  const Step& step = schedule.steps[index];
  const auto& sources = sources_[schedule.rank][index];
  std::vector<Id> operands;
  for (uint32_t i = 0; i < step.chunks.count; ++i) {
    const uint32_t chunk = step.chunks.first + i;
    operands.clear();
    size_t above = 0;  // operands of ranks below mine come before my own
    for (const Source& source : sources) {
      operands.push_back(sent_[source.rank][source.step][i]);
      above += source.rank < schedule.rank;
    }
    if (step.source.space != Space::kNone) {
      Id mine;
      if (auto finding = read(schedule, index, step.source, chunk, mine)) return finding;
      operands.insert(operands.begin() + static_cast<ptrdiff_t>(above), mine);
    }
    if (const auto twice = values_.double_counted(operands))
      return Finding{Fault::kDoubleCount,
                     fmt::format("{}: counts the contribution of rank {} twice",
                                 chunk_of(schedule, index, chunk), *twice)};
    Id result = values_.fold(operands);
    if (step.residual != Residual::kNone) result = values_.with_residual(result, schedule.rank);
    const bool complete = values_.contributions(result) == contributors_;
    if (complete != step.finishes)
      return Finding{
          Fault::kFinish,
          fmt::format("{}: {}", chunk_of(schedule, index, chunk),
                      complete
                          ? "the result holds every contributor, but is not marked as finished"
                          : "marked as finished, but the result is only " + values_.text(result))};
    cells_[schedule.rank][cell(schedule, step.target, chunk)] = result;
  }
  return std::nullopt;
}

MaybeFinding SymbolicRun::end(const Schedule& schedule, uint32_t index) {
  const Step& step = schedule.steps[index];
  for (uint32_t i = 0; i < step.chunks.count; ++i) {
    const uint32_t chunk = step.chunks.first + i;
    Id value;
    if (step.kind == StepKind::kRecv) {
      const Source& source = sources_[schedule.rank][index][0];
      value = sent_[source.rank][source.step][i];
    } else if (auto finding = read(schedule, index, step.source, chunk, value)) {
      return finding;
    }
    if (step.residual != Residual::kNone) value = values_.with_residual(value, schedule.rank);
    if (step.kind == StepKind::kEncode) value = values_.encoded(value);
    cells_[schedule.rank][cell(schedule, step.target, chunk)] = value;
  }
  return std::nullopt;
}

MaybeFinding SymbolicRun::execute(const Event& event) {
  if (event.kind != Event::kStart && event.kind != Event::kEnd) return std::nullopt;
  const Schedule& schedule = schedules_[event.rank];
  const StepKind kind = schedule.steps[event.index].kind;
  if (kind == StepKind::kSend)
    return event.kind == Event::kStart ? send(schedule, event.index) : std::nullopt;
  if (event.kind == Event::kStart) return std::nullopt;
  return kind == StepKind::kRecvReduce ? fold(schedule, event.index) : end(schedule, event.index);
}

MaybeFinding SymbolicRun::check_result() const {
  for (const Schedule& schedule : schedules_) {
    for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk) {
      const Id value = output(schedule, chunk), first = output(schedules_[0], chunk);
      if (value == Values::kNone)
        return Finding{
            Fault::kMissing,
            fmt::format("rank {} ends without a value in output chunk {}", schedule.rank, chunk)};
      if (values_.contributions(value) != contributors_)
        return Finding{Fault::kMissing,
                       fmt::format("rank {} ends with {} in output chunk {}: the contribution of "
                                   "rank {} is missing",
                                   schedule.rank, values_.text(value), chunk, missing_from(value))};
      if (value != first)
        return Finding{
            Fault::kOrder,
            fmt::format("chunk {} is {} on rank {}, but {} on rank 0: the bits may differ", chunk,
                        values_.text(value), schedule.rank, values_.text(first))};
    }
  }
  return std::nullopt;
}

AdditionOrder SymbolicRun::order() const {
  AdditionOrder worst = AdditionOrder::kOnePass;
  for (uint32_t chunk = 0; chunk < schedules_[0].chunks; ++chunk)
    worst = std::max(worst, values_.order(output(schedules_[0], chunk)));
  return worst;
}

Quantisation SymbolicRun::quantisation(double relative_error) const {
  Quantisation worst;
  for (uint32_t chunk = 0; chunk < schedules_[0].chunks; ++chunk) {
    const Quantisation one = values_.quantisation(output(schedules_[0], chunk), relative_error);
    worst.most = std::max(worst.most, one.most);
    worst.held = std::max(worst.held, one.held);
    worst.error = std::max(worst.error, one.error);
  }
  return worst;
}

}  // namespace unisono
