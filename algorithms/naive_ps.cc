// SPDX-License-Identifier: Apache-2.0
// naive_ps: one root takes every vector, adds them up, and sends the result to everyone.
//
//   1 ─┐         ┌─► 1        the root receives (p−1)·n and sends (p−1)·n, all others n each way
//   2 ─┼─► root ─┼─► 2        2 dependent messages, fan-in p−1, one fold in rank order
//   3 ─┘         └─► 3        the root may be a dedicated server, which adds nothing of its own
//
// Source: the parameter server of Li et al., "Scaling distributed machine learning with the
// parameter server", OSDI 2014, with one server.
#include "algorithms/patterns.h"

namespace unisono {
namespace {

Schedule build(const Shape& shape) {
  Builder b(shape, 1);
  if (shape.rank == shape.root) {
    if (const std::vector<int> givers = other_contributors(shape); !givers.empty())
      b.recv_reduce(givers, chunk(0), Finish::kYes);
    if (shape.size > 1) b.send(other_ranks(shape), chunk(0));
  } else {
    if (b.holds(0)) b.send(shape.root, chunk(0));
    b.recv(shape.root, chunk(0));
  }
  return std::move(b).build();
}

}  // namespace

extern const Algorithm naive_ps_row = {
    .name = "naive_ps",
    .summary = "one root takes every vector, adds them up, and sends the result to everyone",
    .collective = Collective::kAllReduce,
    .parameters = {},
    .supports = some_rank_contributes,
    .build = build,
};

}  // namespace unisono
