// SPDX-License-Identifier: Apache-2.0
// Page-aligned buffers for measuring, and how much memory there is for them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace unisono {

// Owns zeroed pages that have been touched. Movable.
class Pages {
 public:
  Pages() = default;
  static Result<Pages> allocate(size_t bytes);  // kOutOfResources
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;
  ~Pages();

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Up to the next page.
size_t round_to_pages(size_t bytes);

}  // namespace unisono
