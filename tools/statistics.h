// SPDX-License-Identifier: Apache-2.0
// What is said of a set of samples, and the field's bandwidths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unisono {

inline constexpr size_t kSamplesForP99 = 100;

struct Statistics {
  double min = 0, median = 0;
  double p99 = 0;  // nearest rank; with fewer than kSamplesForP99 samples the largest
  size_t samples = 0;
};

// Precondition: at least one sample.
Statistics statistics_of(std::vector<double> samples);

// GB/s: bytes over time; and for an all-reduce that times 2(p−1)/p, what each rank must send at
// least.
double algbw_GBps(uint64_t bytes, double time_us);
double busbw_GBps(uint64_t bytes, double time_us, int ranks);

}  // namespace unisono
