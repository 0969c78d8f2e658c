// SPDX-License-Identifier: Apache-2.0
// recursive_doubling: partners exchange their sums at distance 1, 2, 4, …; both add the same two.
//
//   0 ◄─► 1   2 ◄─► 3        distance 1
//   0 ◄─────► 2, 1 ◄─────► 3  distance 2
//
//   sends log2 p·n per rank in log2 p dependent messages, fan-in 1
//   p not a power of two: excess ranks hand their vector in first and get the result last, 2 more
//
// Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
// MPICH", 2005.
#include "algorithms/patterns.h"

namespace unisono {
namespace {

Schedule build(const Shape& shape) {
  const PowerOfTwo group(shape);
  Builder b(shape, 1);
  group.hand_in(b, chunk(0));
  if (!group.absorbed()) {
    for (int distance = 1; distance < group.size(); distance *= 2) {
      const int partner = group.rank_at(group.position() ^ distance);
      b.send(partner, chunk(0));
      b.recv_reduce(partner, chunk(0), finish_if(2 * distance == group.size()));
    }
  }
  group.hand_back(b, chunk(0));
  return std::move(b).build();
}

}  // namespace

extern const Algorithm recursive_doubling_row = {
    .name = "recursive_doubling",
    .summary = "partners exchange whole vectors at distance 1, 2, 4, …; both add the same two",
    .collective = Collective::kAllReduce,
    .parameters = {},
    .supports = every_rank_contributes,
    .build = build,
};

}  // namespace unisono
