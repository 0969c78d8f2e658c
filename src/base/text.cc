// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

namespace unisono {
namespace {

// Number at the front of `text`; what is left of it goes to `rest`.
std::optional<uint64_t> leading_number(std::string_view text, std::string_view& rest) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  rest = text.substr(static_cast<size_t>(end - text.data()));
  return number;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<uint64_t> parse_bytes(std::string_view text) {
  std::string_view suffix;
  const auto number = leading_number(text, suffix);
  if (!number) return std::nullopt;
  constexpr std::string_view kUnits = "KMGT";
  if (suffix.empty() || suffix == "B") return number;
  const size_t unit = kUnits.find(suffix[0]);
  if (unit == std::string_view::npos) return std::nullopt;
  suffix.remove_prefix(1);
  if (!suffix.empty() && suffix != "i" && suffix != "iB" && suffix != "B") return std::nullopt;
  const unsigned shift = 10 * (static_cast<unsigned>(unit) + 1);
  if (*number > (UINT64_MAX >> shift)) return std::nullopt;
  return *number << shift;
}

std::string format_bytes(uint64_t bytes) {
  constexpr std::string_view kUnits[] = {"", "Ki", "Mi", "Gi", "Ti"};
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kUnits[unit]);
}

namespace {

struct DurationUnit {
  std::string_view suffix;
  int64_t nanoseconds;
};
constexpr DurationUnit kDurationUnits[] = {{"h", 3'600'000'000'000}, {"m", 60'000'000'000},
                                           {"s", 1'000'000'000},     {"ms", 1'000'000},
                                           {"us", 1'000},            {"ns", 1}};

}  // namespace

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  std::string_view suffix;
  const auto number = leading_number(text, suffix);
  if (!number) return std::nullopt;
  for (const DurationUnit& unit : kDurationUnits) {
    if (suffix != unit.suffix && !(suffix.empty() && unit.suffix == "s")) continue;
    if (*number > static_cast<uint64_t>(INT64_MAX / unit.nanoseconds)) return std::nullopt;
    return std::chrono::nanoseconds(static_cast<int64_t>(*number) * unit.nanoseconds);
  }
  return std::nullopt;
}

std::string format_duration(std::chrono::nanoseconds duration) {
  for (const DurationUnit& unit : kDurationUnits)
    if (duration.count() != 0 && duration.count() % unit.nanoseconds == 0)
      return fmt::format("{}{}", duration.count() / unit.nanoseconds, unit.suffix);
  return "0s";
}

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::string> parse_hexadecimal(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (size_t at = 0; at < text.size(); at += 2) {
    uint8_t byte = 0;
    const char* const end = text.data() + at + 2;
    if (const auto read = std::from_chars(text.data() + at, end, byte, 16); read.ec != std::errc() || read.ptr != end)
      return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (std::string_view candidate : known) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace unisono
