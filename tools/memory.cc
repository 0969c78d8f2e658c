// SPDX-License-Identifier: Apache-2.0
#include "tools/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace unisono {

Result<Pages> Pages::allocate(size_t bytes) {
  Pages pages;
  pages.bytes_ = round_to_pages(std::max<size_t>(bytes, 1));
  void* data =
      mmap(nullptr, pages.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return Status(StatusCode::kOutOfResources,
                  fmt::format("cannot get {} bytes of memory: {}", bytes, std::strerror(errno)));
  pages.data_ = static_cast<std::byte*>(data);
  std::memset(pages.data_, 0, pages.bytes_);
  return pages;
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

size_t round_to_pages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace unisono
