// SPDX-License-Identifier: Apache-2.0
// Small words that several algorithms share.
#pragma once

#include <cstdint>

#include "schedule/algorithm.h"
#include "schedule/builder.h"

namespace unisono {

inline ChunkRange chunk(int index) { return {static_cast<uint32_t>(index), 1}; }
inline Finish finish_if(bool last) { return last ? Finish::kYes : Finish::kNo; }

// supports() of algorithms in which every rank contributes.
Status every_rank_contributes(const Shape& shape);

}  // namespace unisono
