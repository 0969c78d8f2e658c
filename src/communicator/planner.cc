// SPDX-License-Identifier: Apache-2.0
#include "communicator/planner.h"

#include <fmt/format.h>

#include "algorithms/registry.h"

namespace unisono {

Planner::Planner(const Settings& settings, Policy policy, World world)
    : settings_(settings), policy_(std::move(policy)), world_(std::move(world)) {}

Result<std::shared_ptr<const Plan>> Planner::plan(const AllReduceCall& call) const {
  const auto match = choose(call);
  if (!match.ok()) return match.status();
  const auto wanted = request(call, *match);
  if (!wanted.ok()) return wanted.status();
  return std::make_shared<const Plan>(make_plan(*wanted));
}

// With the codec that the call names.
Result<Rules::Match> Planner::choose(const AllReduceCall& call) const {
  if (call.codec) UNISONO_RETURN_IF_ERROR(supports(*call.codec, call.type, call.op));
  auto match = choose_algorithm(call);
  if (!match.ok()) return match;
  if (call.codec) {
    std::string& codec = match->choice.codec;
    const std::string_view named = name_of(*call.codec);
    if (codec != "none" && codec != named)
      return unsupported(fmt::format("the call asks for codec {}, but {} is {}", named,
                                     to_string(match->choice, algorithms()), match->rule));
    codec = named;
  }
  match->choice = on_hosts(match->choice, world_.shape);
  return match;
}

Result<Rules::Match> Planner::choose_algorithm(const AllReduceCall& call) const {
  if (call.choice) return Rules::Match{*call.choice, "forced by the call"};
  if (policy_.forced) return Rules::Match{*policy_.forced, "forced by UNISONO_ALGORITHM"};
  const RuleFacts facts{.bytes = call.count * size_of(call.type),
                        .ranks = static_cast<uint64_t>(world_.shape.size),
                        .hosts = static_cast<uint64_t>(world_.shape.hosts()),
                        .shared_memory = world_.shared_memory ? 1u : 0u};
  auto match = policy_.rules.select(facts, world_.shape, {call.type, call.op, call.max_error, call.codec},
                                    quantisations_);
  if (match.ok()) match->rule = fmt::format("rule '{}'", match->rule);
  return match;
}

// The choice, resolved; or who asked for what cannot serve.
Result<PlanRequest> Planner::request(const AllReduceCall& call, const Rules::Match& match) const {
  const Choice& choice = match.choice;
  const Algorithm* algorithm = find_algorithm(choice.algorithm);
  if (algorithm == nullptr) return unsupported(fmt::format("unknown algorithm '{}'", choice.algorithm));
  const auto codec = find_codec(choice.codec);
  if (!codec.ok()) return codec.status().in(match.rule);
  UNISONO_RETURN_IF_ERROR(supports(*codec, call.type, call.op).in(match.rule));
  auto parameters = resolve_parameters(*algorithm, choice.parameters);
  if (!parameters.ok()) return parameters.status();
  Shape shape = world_.shape;
  shape.parameters = parameters.take();
  UNISONO_RETURN_IF_ERROR(algorithm->supports(shape).in(fmt::format("{} ({})", choice.algorithm, match.rule)));
  if (choice.links != CodecLinks::kAll)
    UNISONO_RETURN_IF_ERROR(quantisations_.of(*algorithm, shape, *codec, choice.links).status());

  const std::string& form = settings_.text(Setting::kForm);
  PlanRequest request{.algorithm = algorithm,
                      .codec = *codec,
                      .choice = choice,
                      .reason = match.rule,
                      .shape = std::move(shape),
                      .count = call.count,
                      .type = call.type,
                      .op = call.op,
                      .layout = call.layout,
                      .slice_bytes = static_cast<size_t>(settings_.integer(Setting::kSliceBytes)),
                      .mapped = world_.direct_forms && form != "schedule",
                      .mapped_buffers = form == "direct"};
  if (request.choice.depth == 0) request.choice.depth = static_cast<int>(settings_.integer(Setting::kDepth));
  return request;
}

}  // namespace unisono
