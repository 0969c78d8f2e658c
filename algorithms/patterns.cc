// SPDX-License-Identifier: Apache-2.0
#include "algorithms/patterns.h"

#include <bit>

namespace unisono {

std::vector<int> other_ranks(const Shape& shape) {
  std::vector<int> others;
  for (int peer = 0; peer < shape.size; ++peer)
    if (peer != shape.rank) others.push_back(peer);
  return others;
}

std::vector<int> other_contributors(const Shape& shape) {
  std::vector<int> others = other_ranks(shape);
  std::erase_if(others, [&](int peer) { return !shape.contributes(peer); });
  return others;
}

PowerOfTwo::PowerOfTwo(const Shape& shape)
    : rank_(shape.rank),
      size_(static_cast<int>(std::bit_floor(static_cast<unsigned>(shape.size)))),
      excess_(shape.size - size_) {}

void PowerOfTwo::hand_in(Builder& b, ChunkRange all) const {
  if (!paired()) return;
  if (absorbed())
    b.send(rank_ + 1, all);
  else
    b.recv_reduce(rank_ - 1, all, Finish::kNo);
}

void PowerOfTwo::hand_back(Builder& b, ChunkRange all) const {
  if (!paired()) return;
  if (absorbed())
    b.recv(rank_ + 1, all);
  else
    b.send(rank_ - 1, all);
}

Status every_rank_contributes(const Shape& shape) {
  if (shape.servers.empty()) return Status();
  return unsupported(
      "every rank must contribute: dedicated servers need naive_ps, sharded_ps or one_shot");
}

Status some_rank_contributes(const Shape& shape) {
  if (shape.contributors() > 0) return Status();
  return unsupported("all ranks are dedicated servers: expected at least one that contributes");
}

}  // namespace unisono
