// SPDX-License-Identifier: Apache-2.0
// pairwise: sharded_ps in lockstep; in round k everyone sends k places on and receives from k back.
//
//   round 1: 0►1►2►3►0        reduce: p−1 rounds, each adds one rank's part of my chunk
//   round 2: 0►2►0, 1►3►1     gather: p−1 rounds, each hands my chunk to one rank
//   round 3: 0►3►2►1►0        fan-in 1, sends 2(p−1)/p·n per rank in 2(p−1) rounds
//
// Source: the pairwise exchange of Thakur, Rabenseifner and Gropp, "Optimization of collective
// communication operations in MPICH", 2005.
#include "algorithms/patterns.h"

namespace unisono {
namespace {

Schedule build(const Shape& shape) {
  const int p = shape.size, rank = shape.rank;
  Builder b(shape, p);
  Builder::StepId last_receive = 0;  // a round sends once the round before has been received
  for (int round = 1; round < p; ++round) {
    const int to = shape.neighbour(+round), from = shape.neighbour(-round);
    const auto send = b.send(to, chunk(to));
    if (round > 1) b.order(last_receive, send);
    last_receive = b.recv_reduce(from, chunk(rank), finish_if(round == p - 1));
  }
  for (int round = 1; round < p; ++round) {
    const int to = shape.neighbour(+round), from = shape.neighbour(-round);
    b.order(last_receive, b.send(to, chunk(rank)));
    const auto receive = b.recv(from, chunk(from));
    b.order(last_receive, receive);
    last_receive = receive;
  }
  return std::move(b).build();
}

}  // namespace

extern const Algorithm pairwise_row = {
    .name = "pairwise",
    .summary = "every rank owns one chunk, exchanged with one partner at a time in rounds",
    .collective = Collective::kAllReduce,
    .parameters = {},
    .supports = every_rank_contributes,
    .build = build,
};

}  // namespace unisono
