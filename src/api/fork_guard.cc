// SPDX-License-Identifier: Apache-2.0
#include "api/fork_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace unisono::api {
namespace {

size_t page_bytes() {
  return static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

ForkGuard::ForkGuard() : owner_(getpid()) {
  void* page =
      mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::bad_alloc();
  wiped_ = madvise(page, page_bytes(), MADV_WIPEONFORK) == 0;
  page_ = static_cast<volatile char*>(page);
  *page_ = 1;
}

ForkGuard::~ForkGuard() {
  munmap(const_cast<char*>(page_), page_bytes());
}

bool ForkGuard::other_process() const {
  return getpid() != owner_;
}

}  // namespace unisono::api
