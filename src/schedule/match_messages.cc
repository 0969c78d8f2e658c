// SPDX-License-Identifier: Apache-2.0
// The part of verify() that finds the two ends of every message.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "schedule/explain.h"
#include "schedule/finding.h"

namespace unisono {
namespace {

// One side of a message.
struct End {
  int from, to;
  uint32_t number;
  uint32_t step;
  bool encoded;
  auto key() const { return std::tuple(from, to, number); }
};

std::vector<End> ends_of(std::span<const Schedule> schedules, bool sending) {
  std::vector<End> ends;
  for (const Schedule& schedule : schedules) {
    for (uint32_t index = 0; index < schedule.steps.size(); ++index) {
      const Step& step = schedule.steps[index];
      if ((step.kind == StepKind::kSend) != sending) continue;
      for (const auto& [peer, number, encoded] : schedule.peers_of(step))
        ends.push_back(
            {sending ? schedule.rank : peer, sending ? peer : schedule.rank, number, index, encoded});
    }
  }
  std::ranges::sort(ends, {}, &End::key);
  return ends;
}

MaybeFinding check_unique(std::span<const Schedule> schedules, const std::vector<End>& ends,
                          bool sending) {
  const auto twin = std::ranges::adjacent_find(ends, {}, &End::key);
  if (twin == ends.end()) return std::nullopt;
  const Schedule& schedule = schedules[sending ? twin->from : twin->to];
  return Finding{Fault::kMessages,
                 fmt::format("{} and step {}: both {} message #{} from rank {} to rank {}",
                             where(schedule, twin->step), (twin + 1)->step,
                             sending ? "send" : "receive", twin->number, twin->from, twin->to)};
}

}  // namespace

MaybeFinding match_messages(std::span<const Schedule> schedules, std::vector<Message>& messages) {
  const std::vector<End> sends = ends_of(schedules, true), receives = ends_of(schedules, false);
  if (auto finding = check_unique(schedules, sends, true)) return finding;
  if (auto finding = check_unique(schedules, receives, false)) return finding;

  messages.clear();
  for (size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
    const bool have_send = i < sends.size(), have_receive = i < receives.size();
    if (!have_receive || (have_send && sends[i].key() < receives[i].key()))
      return Finding{Fault::kMessages, fmt::format("{}: rank {} never receives message #{}",
                                                   where(schedules[sends[i].from], sends[i].step),
                                                   sends[i].to, sends[i].number)};
    if (!have_send || receives[i].key() < sends[i].key())
      return Finding{Fault::kMessages,
                     fmt::format("{}: rank {} never sends message #{}",
                                 where(schedules[receives[i].to], receives[i].step),
                                 receives[i].from, receives[i].number)};
    const Schedule &from = schedules[sends[i].from], &to = schedules[receives[i].to];
    const Step &send = from.steps[sends[i].step], &receive = to.steps[receives[i].step];
    if (send.chunks != receive.chunks || sends[i].encoded != receives[i].encoded)
      return Finding{Fault::kMessages,
                     fmt::format("{} and {} are the ends of one message: expected the same chunks "
                                 "and encoding",
                                 where(from, sends[i].step), where(to, receives[i].step))};
    messages.push_back(
        {sends[i].from, sends[i].to, sends[i].number, sends[i].step, receives[i].step});
  }
  return std::nullopt;
}

}  // namespace unisono
