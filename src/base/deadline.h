// SPDX-License-Identifier: Apache-2.0
// Deadline: the moment after which a wait must give up.
#pragma once

#include <algorithm>
#include <chrono>

namespace unisono {

// A value. Reads the steady clock (about 20 ns): never once per small call.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline after(std::chrono::nanoseconds timeout) { return Deadline(Clock::now() + timeout); }

  static Deadline never() { return Deadline(Clock::time_point::max()); }

  bool runs() const { return when_ != Clock::time_point::max(); }
  bool passed() const { return Clock::now() >= when_; }
  std::chrono::nanoseconds left() const {
    return std::max(std::chrono::nanoseconds(0),
                    std::chrono::duration_cast<std::chrono::nanoseconds>(when_ - Clock::now()));
  }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}
  Clock::time_point when_;
};

}  // namespace unisono
