// SPDX-License-Identifier: Apache-2.0
// pack/unpack: several byte strings as one, for what ranks tell each other while they connect.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unisono {

std::string pack(std::span<const std::string> fields);
// Empty if `bytes` is not exactly `fields` packed strings.
std::optional<std::vector<std::string>> unpack(std::string_view bytes, size_t fields);

}  // namespace unisono
