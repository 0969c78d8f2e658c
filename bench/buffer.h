// SPDX-License-Identifier: Apache-2.0
// Memory for benchmarks: touched, aligned to cache lines, or as far off as the benchmark asks for.
#pragma once

#include <cstdint>
#include <cstring>
#include <new>

namespace unisono {

class BenchBuffer {
 public:
  // `bytes` bytes of value `fill`, `offset` behind a page boundary.
  explicit BenchBuffer(size_t bytes, int fill = 0, size_t offset = 0)
      : memory_(static_cast<uint8_t*>(::operator new(bytes + offset, kAlignment))),
        offset_(offset) {
    std::memset(memory_, fill, bytes + offset);
  }
  BenchBuffer(const BenchBuffer&) = delete;
  BenchBuffer& operator=(const BenchBuffer&) = delete;
  ~BenchBuffer() { ::operator delete(memory_, kAlignment); }

  uint8_t* data() const { return memory_ + offset_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  uint8_t* memory_;
  size_t offset_;
};

}  // namespace unisono
