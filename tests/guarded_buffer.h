// SPDX-License-Identifier: Apache-2.0
// GuardedBuffer: memory between two pages that nobody may touch, to catch access out of bounds.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace unisono {

class GuardedBuffer {
 public:
  // Holds `bytes`, rounded up to whole pages.
  explicit GuardedBuffer(size_t bytes)
      : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        bytes_((bytes + page_ - 1) / page_ * page_) {
    void* whole = mmap(nullptr, bytes_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (whole == MAP_FAILED) std::abort();
    begin_ = static_cast<uint8_t*>(whole) + page_;
    if (mprotect(begin_, bytes_, PROT_READ | PROT_WRITE) != 0) std::abort();
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer() { munmap(begin_ - page_, bytes_ + 2 * page_); }

  uint8_t* begin() const { return begin_; }
  uint8_t* end() const { return begin_ + bytes_; }
  size_t size() const { return bytes_; }

 private:
  size_t page_, bytes_;
  uint8_t* begin_;
};

}  // namespace unisono
