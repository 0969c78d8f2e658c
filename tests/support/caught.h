// SPDX-License-Identifier: Apache-2.0
// Caught: what is written to standard error while it lives.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace unisono::testing {

// Of this process and the children that it makes meanwhile.
class Caught {
 public:
  Caught() : kept_(dup(STDERR_FILENO)), file_(memfd_create("stderr", MFD_CLOEXEC)) {
    dup2(file_, STDERR_FILENO);
    fcntl(STDERR_FILENO, F_SETFL, O_APPEND);
  }
  ~Caught() {
    dup2(kept_, STDERR_FILENO);
    close(kept_);
    close(file_);
  }
  Caught(const Caught&) = delete;
  Caught& operator=(const Caught&) = delete;

  std::string text() const {
    std::string text(static_cast<size_t>(lseek(file_, 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(file_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return text;
  }

 private:
  const int kept_, file_;
};

}  // namespace unisono::testing
