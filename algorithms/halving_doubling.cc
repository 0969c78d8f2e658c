// SPDX-License-Identifier: Apache-2.0
// halving_doubling: partners exchange halves, quarters, …; what is whole then doubles back.
//
//   distance 2:  0 ◄─► 2, 1 ◄─► 3   each keeps one half of the vector, and adds the partner's
//   distance 1:  0 ◄─► 1, 2 ◄─► 3   each keeps one half of that: its own chunk, now whole
//   distance 1, 2: the same pairs hand each other what they have
//
//   sends 2(p−1)/p·n per rank in 2·log2 p dependent messages, fan-in 1
//   p not a power of two: excess ranks hand their vector in first and get the result last, 2 more
//
// Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
#include "algorithms/patterns.h"

namespace unisono {
namespace {

Schedule build(const Shape& shape) {
  const PowerOfTwo group(shape);
  const ChunkRange all = chunks(0, group.size());
  Builder b(shape, all.count);
  group.hand_in(b, all);
  if (!group.absorbed()) {
    // After distance d, I am left with the d chunks of my block of d positions.
    const auto block = [](int position, int distance) {
      return chunks(position & ~(distance - 1), distance);
    };
    const int me = group.position();
    for (int distance = group.size() / 2; distance >= 1; distance /= 2) {
      const int partner = me ^ distance;
      b.send(group.rank_at(partner), block(partner, distance));
      b.recv_reduce(group.rank_at(partner), block(me, distance), finish_if(distance == 1));
    }
    for (int distance = 1; distance < group.size(); distance *= 2) {
      const int partner = me ^ distance;
      b.send(group.rank_at(partner), block(me, distance));
      b.recv(group.rank_at(partner), block(partner, distance));
    }
  }
  group.hand_back(b, all);
  return std::move(b).build();
}

}  // namespace

extern const Algorithm halving_doubling_row = {
    .name = "halving_doubling",
    .summary = "partners exchange halves, quarters, …; what is whole then doubles back",
    .collective = Collective::kAllReduce,
    .parameters = {},
    .supports = every_rank_contributes,
    .build = build,
};

}  // namespace unisono
