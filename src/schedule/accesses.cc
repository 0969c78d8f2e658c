// SPDX-License-Identifier: Apache-2.0
#include "schedule/accesses.h"

#include <algorithm>

namespace unisono {
namespace {

bool covers(ChunkRange outer, ChunkRange inner) {
  return outer.first <= inner.first && inner.first + inner.count <= outer.first + outer.count;
}

}  // namespace

void Accesses::add(const Step& step, uint32_t id, std::vector<uint32_t>& after) {
  const size_t first_after = after.size();
  const Place source = memory_of(step.source), target = memory_of(step.target);
  if (source.space != Space::kNone && source != target)
    add({id, source, step.chunks, false}, after, first_after);
  if (target.space != Space::kNone) add({id, target, step.chunks, true}, after, first_after);
}

void Accesses::add(Access access, std::vector<uint32_t>& after, size_t first_after) {
  for (const Access& earlier : accesses_) {
    if (!(access.writes || earlier.writes) || earlier.memory != access.memory ||
        !overlap(earlier.chunks, access.chunks))
      continue;
    if (std::find(after.begin() + static_cast<ptrdiff_t>(first_after), after.end(), earlier.step) ==
        after.end())
      after.push_back(earlier.step);
  }
  // A full overwrite stands for everything before it: later steps wait for it alone.
  if (access.writes)
    std::erase_if(accesses_, [&](const Access& earlier) {
      return earlier.memory == access.memory && covers(access.chunks, earlier.chunks);
    });
  accesses_.push_back(access);
}

}  // namespace unisono
