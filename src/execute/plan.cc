// SPDX-License-Identifier: Apache-2.0
#include "execute/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/quantise.h"

namespace unisono {
namespace {

constexpr size_t ceil_div(size_t a, size_t b) {
  return a / b + (a % b != 0);
}

// FNV-1a, of a text so that the fields cannot run into each other.
uint32_t hash(std::string_view text) {
  uint32_t value = 2166136261u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 16777619u;
  return value;
}

std::string signature_of(const PlanRequest& r, size_t slices) {
  std::string text = fmt::format("{} {} {} {} by {}", name_of(r.shape.collective), r.count,
                                 name_of(r.type), name_of(r.op), r.choice.algorithm);
  for (const auto& [name, value] : r.shape.parameters.entries())
    text += fmt::format(" {}={}", name, value);
  if (r.choice.codec != "none") text += fmt::format(" codec={}", r.choice.codec);
  if (r.choice.links == CodecLinks::kBetweenHosts) text += " links=between_hosts";
  if (r.shape.root != 0) text += fmt::format(" root={}", r.shape.root);
  if (!r.shape.servers.empty()) text += fmt::format(" servers={}", fmt::join(r.shape.servers, ","));
  if (slices != 1) text += fmt::format(" slices={}", slices);
  if (r.layout != 0) text += fmt::format(" layout={:x}", r.layout);
  return text;
}

void prepare_edges(Plan& plan) {
  const Schedule& s = plan.schedule;
  for (const Step& step : s.steps) {
    Plan::Waits& waits = plan.waits.emplace_back(Plan::Waits{0, step.peer_count});
    for (const uint32_t before : s.after_of(step))
      ++(plan.delays_only_the_end(s.steps[before], step) ? waits.to_end : waits.to_post);
  }
  plan.first_successor.assign(s.steps.size() + 1, 0);
  for (const uint32_t before : s.after) ++plan.first_successor[before + 1];
  for (size_t i = 0; i < s.steps.size(); ++i)
    plan.first_successor[i + 1] += plan.first_successor[i];
  plan.successors.resize(s.after.size());
  std::vector<uint32_t> next(plan.first_successor.begin(), plan.first_successor.end() - 1);
  for (uint32_t step = 0; step < s.steps.size(); ++step)
    for (const uint32_t before : s.after_of(s.steps[step])) plan.successors[next[before]++] = step;
}

bool has_default_parameters(const PlanRequest& request) {
  return std::ranges::all_of(request.algorithm->parameters, [&](const ParameterSpec& spec) {
    return request.shape.parameters.text(spec.name) == spec.default_value;
  });
}

// The first of the algorithm's direct forms, for mapped or for any buffers, that serves the call; null where
// none does.
const DirectForm* direct_form(const PlanRequest& request, const DirectShape& shape, bool mapped_buffers) {
  if (!request.mapped || request.codec != nullptr || shape.ranks < 2 || shape.bytes == 0 ||
      !request.shape.servers.empty() || !has_default_parameters(request))
    return nullptr;
  for (const DirectForm* form : request.algorithm->forms)
    if (form->needs_mapped_buffers == mapped_buffers && form->serves(shape)) return form;
  return nullptr;
}

}  // namespace

ElementRange Plan::elements(ChunkRange chunks, size_t slice) const {
  const ElementRange whole =
      elements_of({static_cast<uint32_t>(slice), 1}, static_cast<uint32_t>(slices), count);
  const ElementRange part = elements_of(chunks, schedule.chunks, whole.count());
  return {whole.begin + part.begin, whole.begin + part.end};
}

uint64_t Plan::wire_bytes() const {
  uint64_t bytes = 0;
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::kSend) continue;
    const bool encoded = step.source.space == Space::kEncoded;
    for (size_t slice = 0; slice < slices; ++slice) {
      for (uint32_t i = 0; i < step.chunks.count; ++i) {
        const size_t n = elements({step.chunks.first + i, 1}, slice).count();
        bytes += (encoded ? codec->wire_size(n) : n * element_size()) * step.peer_count;
      }
    }
  }
  return bytes;
}

Plan make_plan(const PlanRequest& request) {
  Plan plan;
  plan.codec = request.codec;
  plan.schedule = request.codec == nullptr
                      ? request.algorithm->build(request.shape)
                      : build_quantised(*request.algorithm, request.shape,
                                        on_links(request.choice.links, request.shape));
  plan.choice = request.choice;
  plan.reason = request.reason;
  plan.count = request.count;
  plan.type = request.type;
  plan.op = request.op;
  const size_t chunk_bytes = ceil_div(request.count, plan.schedule.chunks) * size_of(request.type);
  plan.slices = request.count == 0
                    ? 0
                    : std::clamp<size_t>(ceil_div(chunk_bytes, request.slice_bytes), 1, 1u << 30);
  plan.depth = std::clamp<size_t>(plan.slices, 1, static_cast<size_t>(request.choice.depth));
  const DirectShape direct{request.count * size_of(request.type), request.shape.size};
  plan.direct = direct_form(request, direct, false);
  if (plan.direct != nullptr) {
    plan.turns = plan.direct->turns(direct);
    if (request.mapped_buffers) plan.mapped = direct_form(request, direct, true);
  }
  plan.signature_text = signature_of(request, plan.slices);
  plan.signature = hash(plan.signature_text);
  plan.divisor =
      request.op == ReduceOp::kAvg ? static_cast<uint32_t>(request.shape.contributors()) : 1;
  plan.reduce =
      reduce_kernel(request.type, request.op == ReduceOp::kAvg ? ReduceOp::kSum : request.op);
  const ReduceKernels finish = reduce_kernels(request.type, request.op);
  plan.finish = finish.reduce;
  plan.spread = finish.spread;
  prepare_edges(plan);
  return plan;
}

}  // namespace unisono
