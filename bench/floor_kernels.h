// SPDX-License-Identifier: Apache-2.0
// What bench/floor does to memory: add and copy, with normal and with non-temporal stores.
#pragma once

#include <cstddef>

namespace unisono {

enum class Stores : bool { kNormal, kNonTemporal };

// Where results go. Non-temporal stores only where all results begin at multiples of 64 B.
struct Target {
  float* data = nullptr;
  Stores stores = Stores::kNormal;
};

// first[i] = a[i] + b[i]; second[i] too unless its data is null. No overlap. Non-temporal stores of
// `second` need those of `first`.
void floor_add(const float* a, const float* b, Target first, Target second, size_t count);
void floor_copy(const float* input, float* output, size_t count, Stores stores);

}  // namespace unisono
