// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fmt/format.h>
#include <unistd.h>

namespace unisono {
namespace {

LogLevel level_of(const std::string& name) {
  if (name == "error") return LogLevel::kError;
  if (name == "warn") return LogLevel::kWarn;
  return name == "info" ? LogLevel::kInfo : LogLevel::kDebug;
}

}  // namespace

Log::Log(const Settings& settings, int rank)
    : level_(level_of(settings.text(Setting::kLog))), rank_(rank) {}

void Log::write(LogLevel level, std::string_view line) const {
  if (!shows(level)) return;
  const std::string text = fmt::format("unisono rank {}: {}\n", rank_, line);
  // A log line that cannot be written has nowhere to be reported.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace unisono
