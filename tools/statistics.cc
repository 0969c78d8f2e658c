// SPDX-License-Identifier: Apache-2.0
#include "tools/statistics.h"

#include <algorithm>
#include <cassert>

namespace unisono {

Statistics statistics_of(std::vector<double> samples) {
  assert(!samples.empty());
  std::ranges::sort(samples);
  const size_t n = samples.size();
  const double median = (samples[(n - 1) / 2] + samples[n / 2]) / 2;
  const size_t p99 = n < kSamplesForP99 ? n - 1 : (n * 99 + 99) / 100 - 1;
  return {samples.front(), median, samples[p99], n};
}

double algbw_GBps(uint64_t bytes, double time_us) {
  return time_us > 0 ? static_cast<double>(bytes) / time_us / 1e3 : 0;
}

double busbw_GBps(uint64_t bytes, double time_us, int ranks) {
  return algbw_GBps(bytes, time_us) * 2 * (ranks - 1) / ranks;
}

}  // namespace unisono
