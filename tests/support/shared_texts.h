// SPDX-License-Identifier: Apache-2.0
// SharedTexts: lines that forked ranks leave for the parent to judge, and a place where they meet.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string>
#include <string_view>
#include <thread>

namespace unisono::testing {

// Make it before forking. Each text has one writer; read them when the writers have ended.
class SharedTexts {
 public:
  explicit SharedTexts(size_t count)
      : bytes_(count * kLength + sizeof(std::atomic<int>)),
        memory_(static_cast<char*>(
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))),
        arrived_(*new (memory_ + count * kLength) std::atomic<int>(0)) {}
  ~SharedTexts() { munmap(memory_, bytes_); }
  SharedTexts(const SharedTexts&) = delete;
  SharedTexts& operator=(const SharedTexts&) = delete;

  void write(size_t index, std::string_view text) {
    text = text.substr(0, kLength - 1);
    std::copy(text.begin(), text.end(), memory_ + index * kLength);
  }
  // Waits until `many` have come in all.
  void meet(int many) {
    ++arrived_;
    while (arrived_ < many) std::this_thread::yield();
  }
  std::string read(size_t index) const { return memory_ + index * kLength; }

 private:
  static constexpr size_t kLength = 1024;
  const size_t bytes_;
  char* const memory_;
  std::atomic<int>& arrived_;
};

}  // namespace unisono::testing
