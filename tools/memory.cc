// SPDX-License-Identifier: Apache-2.0
#include "tools/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "base/text.h"

namespace unisono {
namespace {

uint64_t number_in(const char* path, uint64_t otherwise) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : otherwise;
}

}  // namespace

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

uint64_t available_memory() {
  uint64_t available = UINT64_MAX;
  std::ifstream host("/proc/meminfo");
  std::string line;
  while (std::getline(host, line)) {
    if (!line.starts_with("MemAvailable:")) continue;
    const auto words = split(trim(std::string_view(line).substr(13)), ' ');
    if (const auto number = parse_integer(words[0]))
      available = static_cast<uint64_t>(*number) * 1024;
  }
  const uint64_t limit = number_in("/sys/fs/cgroup/memory.max", UINT64_MAX);  // "max" is no number
  const uint64_t used = number_in("/sys/fs/cgroup/memory.current", 0);
  return std::min(available, limit == UINT64_MAX ? limit : limit - std::min(limit, used));
}

}  // namespace unisono
