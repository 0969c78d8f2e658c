// SPDX-License-Identifier: Apache-2.0
// Reading and writing the small languages of users: sizes, durations, names.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unisono {

// "8", "64K", "16M", "1G", "4KiB": powers of 1024. Nothing else is accepted.
std::optional<uint64_t> parse_bytes(std::string_view text);
// "8", "4Ki", "64Ki", "1Mi", as short as exact.
std::string format_bytes(uint64_t bytes);

// "250ms", "30s", "5m", "2h", "100us"; a bare number is seconds.
std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);
std::string format_duration(std::chrono::nanoseconds duration);

// A whole decimal number, sign allowed; nothing before or after it.
std::optional<int64_t> parse_integer(std::string_view text);

// The bytes that pairs of hexadecimal digits stand for.
std::optional<std::string> parse_hexadecimal(std::string_view text);

std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);

// The known name with the fewest edits to `name`, for "did you mean". Empty if none is near.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known);

}  // namespace unisono
