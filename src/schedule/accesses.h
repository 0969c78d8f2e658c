// SPDX-License-Identifier: Apache-2.0
// Accesses: which earlier steps a step must wait for, since they touch the same memory.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace unisono {

// Input and output of a chunk count as one memory, so that every schedule is right in place too.
class Accesses {
 public:
  // Appends to `after`, once each, the earlier steps of which one memory is also touched by `step`,
  // and written by either. Steps are added in program order.
  void add(const Step& step, uint32_t id, std::vector<uint32_t>& after);

 private:
  struct Access {
    uint32_t step;
    Place memory;
    ChunkRange chunks;
    bool writes;
  };
  void add(Access access, std::vector<uint32_t>& after, size_t first_after);

  std::vector<Access> accesses_;  // newest last, minus those fully overwritten
};

// The memory behind a place.
inline Place memory_of(Place place) {
  return place.space == Space::kInput ? Place{Space::kOutput} : place;
}

inline bool overlap(ChunkRange a, ChunkRange b) {
  return a.first < b.first + b.count && b.first < a.first + a.count;
}

}  // namespace unisono
