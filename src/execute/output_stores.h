// SPDX-License-Identifier: Apache-2.0
// OutputStores: whether the outputs of a direct call that is made again and again go past the cache (kernels/move.h).
// Small ones never do, and huge ones always. Between, it depends on where the ranks' cores lie and what the caches
// between them hold, which changes while a program runs; so it is measured: the first calls of each period take turns,
// and the others do what was quicker. A call takes from its turn in the lane to its end: also what its caller does
// between start and wait. So the shortest times count.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace unisono {

// One thread at a time.
class OutputStores {
 public:
  static constexpr uint32_t kTrials = 8, kPeriod = 128;  // calls

  // `cache`: bytes of a core's own one.
  OutputStores(size_t bytes, size_t cache)
      : measures_(bytes >= cache / 2 && bytes < 8 * cache), streams_(bytes >= cache) {}

  // Whether it wants to know how long calls take.
  bool measures() const { return measures_; }
  // Of the next call.
  bool stream() const { return measures_ && calls_ < kTrials ? calls_ % 2 == 1 : streams_; }
  // That call, to which stream() answered, took so long.
  void note(std::chrono::nanoseconds time);

 private:
  using Times = std::array<std::chrono::nanoseconds, 2>;
  static constexpr Times kNone = {std::chrono::nanoseconds::max(), std::chrono::nanoseconds::max()};

  const bool measures_;
  bool streams_;
  uint32_t calls_ = 0;  // of this period
  Times best_ = kNone;  // through the cache, past it
};

}  // namespace unisono
