// SPDX-License-Identifier: Apache-2.0
// ForkGuard: tells a process that it was forked from the one that made the guard, by one load.
#pragma once

#include <sys/types.h>

namespace unisono::api {

// A page of memory that the kernel wipes in a child (madvise(2), MADV_WIPEONFORK). Where the kernel
// cannot (before Linux 4.14), compares process numbers, which costs a system call a question.
class ForkGuard {
 public:
  ForkGuard();  // throws std::bad_alloc
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  bool in_child() const { return wiped_ ? *page_ == 0 : other_process(); }

 private:
  bool other_process() const;

  volatile char* page_ = nullptr;
  bool wiped_ = false;  // in a child
  pid_t owner_;
};

}  // namespace unisono::api
