// SPDX-License-Identifier: Apache-2.0
// The proof, part by part, and the counting.
#include "schedule/verify.h"

#include <algorithm>
#include <utility>

#include "schedule/event_graph.h"
#include "schedule/finding.h"
#include "schedule/symbolic_run.h"

namespace unisono {
namespace {

std::vector<RankCost> count_costs(std::span<const Schedule> schedules,
                                  std::span<const Message> messages) {
  std::vector<RankCost> costs(schedules.size());
  for (const Schedule& schedule : schedules) costs[schedule.rank].steps = schedule.steps.size();
  for (const Message& message : messages) {
    const uint32_t chunks = schedules[message.from].steps[message.send].chunks.count;
    ++costs[message.from].messages_sent;
    ++costs[message.to].messages_received;
    costs[message.from].chunks_sent += chunks;
    costs[message.to].chunks_received += chunks;
  }
  return costs;
}

void measure_rounds(const EventGraph& graph, Verification& result) {
  std::vector<std::pair<int, uint32_t>> arrivals;  // (receiver, round) of each message
  for (uint32_t id : graph.order())
    if (graph.event(id).kind == Event::kTransfer)
      arrivals.emplace_back(graph.event(id).rank, graph.round(id));
  std::ranges::sort(arrivals);
  uint32_t together = 0;
  for (size_t i = 0; i < arrivals.size(); ++i) {
    together = i > 0 && arrivals[i] == arrivals[i - 1] ? together + 1 : 1;
    result.fan_in = std::max(result.fan_in, together);
    result.rounds = std::max(result.rounds, arrivals[i].second);
  }
}

MaybeFinding check(std::span<const Schedule> schedules, const VerifyOptions& options,
                   Verification& result) {
  if (auto finding = check_form(schedules, options)) return finding;
  std::vector<Message> messages;
  if (auto finding = match_messages(schedules, messages)) return finding;
  for (const Schedule& schedule : schedules)
    if (auto finding = check_races(schedule)) return finding;
  EventGraph graph(schedules, messages, options);
  if (auto finding = graph.run()) return finding;

  Values values(static_cast<int>(schedules.size()));
  for (bool in_place : {false, true}) {
    SymbolicRun run(schedules, messages, options.servers, values, in_place);
    for (uint32_t id : graph.order())
      if (auto finding = run.execute(graph.event(id))) return finding;
    if (auto finding = run.check_result()) return finding;
    result.order = std::max(result.order, run.order());
    result.quantisation = run.quantisation(options.relative_error);
  }
  result.chunks = schedules[0].chunks;
  result.ranks = count_costs(schedules, messages);
  measure_rounds(graph, result);
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "none";
    case Fault::kMalformed:
      return "malformed";
    case Fault::kMessages:
      return "messages do not match";
    case Fault::kDeadlock:
      return "deadlock";
    case Fault::kRace:
      return "race";
    case Fault::kReadBeforeWrite:
      return "read before write";
    case Fault::kDoubleCount:
      return "double count";
    case Fault::kMissing:
      return "missing";
    case Fault::kOrder:
      return "different orders";
    case Fault::kFinish:
      return "wrong finish";
  }
  return "unknown";
}

std::string_view name_of(AdditionOrder order) {
  switch (order) {
    case AdditionOrder::kOnePass:
      return "one pass";
    case AdditionOrder::kLeftFold:
      return "left fold";
    case AdditionOrder::kOther:
      return "other";
  }
  return "unknown";
}

Verification verify(std::span<const Schedule> schedules, const VerifyOptions& options) {
  Verification result;
  if (auto finding = check(schedules, options, result)) {
    result = {};
    result.fault = finding->fault;
    result.explanation = std::move(finding->explanation);
  }
  return result;
}

std::vector<Schedule> build_all(const Algorithm& algorithm, Shape shape) {
  std::vector<Schedule> schedules;
  for (shape.rank = 0; shape.rank < shape.size; ++shape.rank)
    schedules.push_back(algorithm.build(shape));
  return schedules;
}

}  // namespace unisono
