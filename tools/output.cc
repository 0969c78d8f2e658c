// SPDX-License-Identifier: Apache-2.0
#include "tools/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace unisono {

Output Output::standard() {
  return Output(STDOUT_FILENO, "standard output");
}

Result<Output> Output::open(const std::string& path) {
  if (path == "-") return standard();
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return invalid_argument(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  return Output(descriptor, path);
}

Output::Output(Output&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), name_(std::move(other.name_)) {}

Output& Output::operator=(Output&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(name_, other.name_);
  return *this;
}

Output::~Output() {
  if (descriptor_ > STDERR_FILENO) close(descriptor_);
}

Status Output::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(name_);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return Status();
}

Progress::Progress() : on_terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::show(std::string_view line) {
  if (!on_terminal_) return;
  fmt::print(stderr, "\r\x1b[K{}", line);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (!std::exchange(shown_, false)) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

}  // namespace unisono
