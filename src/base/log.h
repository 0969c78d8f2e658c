// SPDX-License-Identifier: Apache-2.0
// Log: one line on standard error, "unisono rank 2: …". Never on the hot path.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/settings.h"

namespace unisono {

enum class LogLevel : uint8_t { kError, kWarn, kInfo, kDebug };

// A value; each communicator has its own. Thread-safe (one write per line).
class Log {
 public:
  Log(const Settings& settings, int rank);

  bool shows(LogLevel level) const { return level <= level_; }
  void write(LogLevel level, std::string_view line) const;

 private:
  LogLevel level_;
  int rank_;
};

}  // namespace unisono
