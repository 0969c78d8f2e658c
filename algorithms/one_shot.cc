// SPDX-License-Identifier: Apache-2.0
// one_shot: everyone sends its vector to everyone, and each adds them all up in rank order.
//
//   0 ◄──► 1        sends (p−1)·n per rank in one message time, fan-in p−1
//   ▲ ╲  ╱ ▲        every rank does the same single fold, so the bits agree without an owner
//   │  ╳   │        the least latency there is; dedicated servers only listen
//   ▼ ╱  ╲ ▼
//   2 ◄──► 3
//
// Source: all-to-all broadcast in Bruck et al., "Efficient algorithms for all-to-all communications
// in multiport message-passing systems", 1997, with as many ports as peers.
#include "algorithms/direct/forms.h"
#include "algorithms/patterns.h"

namespace unisono {
namespace {

Schedule build(const Shape& shape) {
  Builder b(shape, 1);
  if (b.holds(0))
    for (int distance = 1; distance < shape.size; ++distance)
      b.send(shape.neighbour(+distance), chunk(0));
  if (const std::vector<int> givers = other_contributors(shape); !givers.empty())
    b.recv_reduce(givers, chunk(0), Finish::kYes);
  return std::move(b).build();
}

}  // namespace

extern const Algorithm one_shot_row = {
    .name = "one_shot",
    .summary = "everyone sends its vector to everyone, and each adds them all up in rank order",
    .collective = Collective::kAllReduce,
    .parameters = {},
    .supports = some_rank_contributes,
    .build = build,
    .forms = one_shot_forms,
};

}  // namespace unisono
