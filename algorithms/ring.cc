// SPDX-License-Identifier: Apache-2.0
// ring: each chunk travels once around collecting sums, then once more as the result.
//
//   0 ──► 1 ──► 2 ──► 3 ─┐     reduce-scatter: p−1 rounds, chunk r starts at rank r
//   ▲                    │     all-gather:     p−1 rounds
//   └────────────────────┘     fan-in 1, sends 2(p−1)/p·n per rank in 2(p−1) dependent rounds
//
// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
#include "algorithms/patterns.h"

namespace unisono {
namespace {

Schedule build(const Shape& shape) {
  const int p = shape.size, next = shape.neighbour(+1), previous = shape.neighbour(-1);
  Builder b(shape, p);
  for (int round = 0; round < p - 1; ++round) {
    b.send(next, chunk(shape.neighbour(-round)));
    b.recv_reduce(previous, chunk(shape.neighbour(-round - 1)), finish_if(round == p - 2));
  }
  for (int round = 0; round < p - 1; ++round) {
    b.send(next, chunk(shape.neighbour(1 - round)));
    b.recv(previous, chunk(shape.neighbour(-round)));
  }
  return std::move(b).build();
}

}  // namespace

extern const Algorithm ring_row = {
    .name = "ring",
    .summary = "each chunk travels once around collecting sums, then once more as the result",
    .collective = Collective::kAllReduce,
    .parameters = {},
    .supports = every_rank_contributes,
    .build = build,
};

}  // namespace unisono
