// SPDX-License-Identifier: Apache-2.0
#include "base/pack.h"

#include <cstdint>
#include <cstring>

namespace unisono {

std::string pack(std::span<const std::string> fields) {
  std::string bytes;
  for (const std::string& field : fields) {
    const auto size = static_cast<uint32_t>(field.size());
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size).append(field);
  }
  return bytes;
}

std::optional<std::vector<std::string>> unpack(std::string_view bytes, size_t fields) {
  std::vector<std::string> result;
  while (result.size() < fields) {
    uint32_t size;
    if (bytes.size() < sizeof size) return std::nullopt;
    std::memcpy(&size, bytes.data(), sizeof size);
    bytes.remove_prefix(sizeof size);
    if (bytes.size() < size) return std::nullopt;
    result.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  if (!bytes.empty()) return std::nullopt;
  return result;
}

}  // namespace unisono
