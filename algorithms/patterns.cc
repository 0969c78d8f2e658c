// SPDX-License-Identifier: Apache-2.0
#include "algorithms/patterns.h"

namespace unisono {

Status every_rank_contributes(const Shape& shape) {
  if (shape.servers.empty()) return Status();
  return unsupported("every rank must contribute: dedicated servers need naive_ps, sharded_ps or one_shot");
}

}  // namespace unisono
