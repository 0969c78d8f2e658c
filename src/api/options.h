// SPDX-License-Identifier: Apache-2.0
// Reading the structs of the C interface, which grow from version to version.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "base/settings.h"
#include "base/status.h"
#include "communicator/communicator.h"
#include "unisono/unisono.h"

namespace unisono::api {

// Whether a struct of `given` bytes can be read by a library whose own has `known` bytes, and whose
// first version had `first`. `bytes` is the struct. Sizes are compared in the way of openat2(2).
Status check_struct(std::string_view name, const std::byte* bytes, size_t first, size_t known);

// A copy with what the caller's header does not know yet at zero. Null: zero all through.
template <typename T>
Result<T> read_struct(std::string_view name, const T* given, size_t first) {
  T copy{};
  if (given == nullptr) return copy;
  const auto* bytes = reinterpret_cast<const std::byte*>(given);
  UNISONO_RETURN_IF_ERROR(check_struct(name, bytes, first, sizeof(T)));
  std::memcpy(&copy, bytes, std::min(given->size, sizeof(T)));
  return copy;
}

struct Creation {
  Settings settings;
  CommunicatorOptions communicator;
};

// The environment, and over it the options.
Result<Creation> read_options(const unisono_options_t* options);

}  // namespace unisono::api
