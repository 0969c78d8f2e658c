// SPDX-License-Identifier: Apache-2.0
// The table of algorithms. A new algorithm is its file, its row here, and its line in meson.build.
#include "algorithms/registry.h"

// In the order in which they are listed. `ring` stands for `const Algorithm ring_row` in ring.cc.
// clang-format off
#define UNISONO_ALGORITHM_ROWS(row) \
  row(naive_ps)                     \
  row(sharded_ps)                   \
  row(pairwise)                     \
  row(ring)                         \
  row(double_binary_tree)           \
  row(one_shot)                     \
  row(recursive_doubling)           \
  row(halving_doubling)
// clang-format on

namespace unisono {

#define UNISONO_DECLARE(name) extern const Algorithm name##_row;
UNISONO_ALGORITHM_ROWS(UNISONO_DECLARE)
#undef UNISONO_DECLARE

AlgorithmTable algorithms() {
#define UNISONO_POINTER(name) &name##_row,
  static constexpr const Algorithm* kTable[] = {UNISONO_ALGORITHM_ROWS(UNISONO_POINTER)};
#undef UNISONO_POINTER
  return kTable;
}

const Algorithm* find_algorithm(std::string_view name) {
  for (const Algorithm* algorithm : algorithms())
    if (algorithm->name == name) return algorithm;
  return nullptr;
}

}  // namespace unisono
