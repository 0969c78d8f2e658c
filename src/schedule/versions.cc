// SPDX-License-Identifier: Apache-2.0
#include "schedule/versions.h"

#include <algorithm>

namespace unisono {

Versions::Versions(const QuantiseTask& task)
    : all_(task.plain.chunks, {Version{.finished = task.sole}}), present_(task.plain.chunks, 0) {
  for (const Step& step : task.plain.steps) {
    if (step.kind == StepKind::kSend) send(task, step);
    if (step.kind == StepKind::kRecvReduce) fold(task, step);
    if (step.kind != StepKind::kRecv) continue;
    for (uint32_t c = step.chunks.first; c < end_of(step.chunks); ++c)
      make(c, {.finished = true, .received = true, .is_encoded = true});
  }
  for (uint32_t c = 0; c < task.plain.chunks; ++c) {
    present(c).is_used = true;
    assign_residuals(all_[c]);
  }
  std::ranges::fill(present_, 0);
}

bool Versions::finished(ChunkRange chunks) const {
  bool result = true;
  for (uint32_t c = chunks.first; c < end_of(chunks); ++c) result &= at(c).finished;
  return result;
}

void Versions::make(uint32_t chunk, const Version& next) {
  all_[chunk].push_back(next);
  ++present_[chunk];
}

void Versions::send(const QuantiseTask& task, const Step& step) {
  const bool result = finished(step.chunks);
  for (uint32_t c = step.chunks.first; c < end_of(step.chunks); ++c) {
    Version& version = present(c);
    version.sent = true;
    for (const PeerMessage& peer : task.plain.peers_of(step))
      (task.is_encoded(task.plain.rank, peer.rank, result) ? version.is_encoded : version.is_used) = true;
  }
}

void Versions::fold(const QuantiseTask& task, const Step& step) {
  const bool mine = step.source.space != Space::kNone;
  for (uint32_t c = step.chunks.first; c < end_of(step.chunks); ++c) {
    present(c).is_used |= mine;
    make(c, {.finished = step.finishes,
             .shared = mine && (present(c).sent || present(c).shared),
             .is_encoded = step.finishes && task.results_sent[c]});
  }
}

void Versions::assign_residuals(std::vector<Version>& versions) {
  bool worker_used = false;
  for (size_t i = 0; i < versions.size(); ++i) {
    Version& v = versions[i];
    if (!v.is_encoded || v.shared || v.received) continue;
    const bool owned = v.finished && i > 0;
    if (owned) v.residual = Residual::kOwner;
    if (worker_used) continue;
    (owned ? v.takes_worker : worker_used) = true;
    if (!owned) v.residual = Residual::kWorker;
  }
}

}  // namespace unisono
