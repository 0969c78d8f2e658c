// SPDX-License-Identifier: Apache-2.0
// Small words that several algorithms share.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/algorithm.h"
#include "schedule/builder.h"

namespace unisono {

inline ChunkRange chunk(int index) {
  return {static_cast<uint32_t>(index), 1};
}
inline ChunkRange chunks(int first, int count) {
  return {static_cast<uint32_t>(first), static_cast<uint32_t>(count)};
}
inline Finish finish_if(bool last) {
  return last ? Finish::kYes : Finish::kNo;
}

// Everyone but me, ascending.
std::vector<int> other_ranks(const Shape& shape);
// Those of them that contribute.
std::vector<int> other_contributors(const Shape& shape);

// The largest power of two that fits into the ranks, for algorithms that work on one. The first
// 2·excess ranks stand in pairs (2i, 2i+1): the even rank is absorbed, the odd one works for both.
// So positions 0…size−1 of the power of two rise with the ranks that fill them.
class PowerOfTwo {
 public:
  explicit PowerOfTwo(const Shape& shape);

  int size() const { return size_; }
  bool absorbed() const { return paired() && rank_ % 2 == 0; }
  int position() const { return paired() ? rank_ / 2 : rank_ - excess_; }  // if not absorbed
  int rank_at(int position) const {
    return position < excess_ ? 2 * position + 1 : position + excess_;
  }

  // The absorbed rank hands its vector in before, and takes the result after.
  void hand_in(Builder& b, ChunkRange all) const;
  void hand_back(Builder& b, ChunkRange all) const;

 private:
  bool paired() const { return rank_ < 2 * excess_; }

  int rank_, size_, excess_;
};

// supports() of algorithms in which every rank contributes.
Status every_rank_contributes(const Shape& shape);
// supports() of algorithms that know dedicated servers.
Status some_rank_contributes(const Shape& shape);

}  // namespace unisono
