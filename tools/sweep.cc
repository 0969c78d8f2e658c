// SPDX-License-Identifier: Apache-2.0
// Parsing of sweeps.
#include "tools/sweep.h"

#include <fmt/format.h>

#include <functional>

#include "base/text.h"

namespace unisono {
namespace {

constexpr size_t kMostValues = 10000;
constexpr uint64_t kMostRanks = 65536;

struct Step {
  bool multiplies;
  uint64_t by;
};

struct Language {
  std::optional<uint64_t> (*number)(std::string_view text);
  Step default_step;
  std::string_view expected;
};

std::optional<uint64_t> parse_rank_count(std::string_view text) {
  const auto number = parse_integer(text);
  if (!number || *number < 1 || *number > static_cast<int64_t>(kMostRanks)) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

constexpr Language kBytes = {
    parse_bytes, {true, 2}, "a size like 8 or 64K, a list 8,64K,1M, or FIRST:LAST:xFACTOR"};
constexpr Language kRanks = {
    parse_rank_count, {false, 1}, "a rank count from 1 to 65536, a list 2,3,8, or FIRST:LAST"};

std::optional<Step> parse_step(std::string_view text, const Language& language) {
  if (text.empty() || (text[0] != 'x' && text[0] != '+')) return std::nullopt;
  const auto by = text[0] == 'x' ? parse_integer(text.substr(1)) : std::nullopt;
  if (text[0] == 'x') {
    if (!by || *by < 2) return std::nullopt;
    return Step{true, static_cast<uint64_t>(*by)};
  }
  const auto added = language.number(text.substr(1));
  if (!added || *added == 0) return std::nullopt;
  return Step{false, *added};
}

// Appends the values of one item of the list.
Status expand(std::string_view item, const Language& language, std::vector<uint64_t>& values) {
  const auto expected = [&](std::string_view what) {
    return invalid_argument(fmt::format("{}: expected {}", item, what));
  };
  const auto parts = split(item, ':');
  const auto first = language.number(parts[0]);
  if (!first || parts.size() > 3) return expected(language.expected);
  if (parts.size() == 1) {
    values.push_back(*first);
    return Status();
  }
  const auto last = language.number(parts[1]);
  if (!last) return expected(language.expected);
  if (*first > *last) return expected("FIRST:LAST:xFACTOR with FIRST <= LAST");
  Step step = language.default_step;
  if (parts.size() == 3) {
    const auto given = parse_step(parts[2], language);
    if (!given)
      return expected("FIRST:LAST:xFACTOR with FACTOR >= 2, or FIRST:LAST:+STEP with STEP >= 1");
    step = *given;
  }
  if (step.multiplies && *first == 0) return expected("FIRST:LAST:xFACTOR with FIRST >= 1");
  for (uint64_t value = *first;;) {
    if (values.size() == kMostValues)
      return expected(fmt::format("at most {} values", kMostValues));
    values.push_back(value);
    if (value == *last) return Status();
    const bool beyond = step.multiplies ? value > *last / step.by : step.by > *last - value;
    value = beyond ? *last : step.multiplies ? value * step.by : value + step.by;
  }
}

Result<std::vector<uint64_t>> parse(std::string_view text, const Language& language) {
  std::vector<uint64_t> values;
  for (std::string_view item : split(text, ','))
    UNISONO_RETURN_IF_ERROR(expand(item, language, values));
  return values;
}

}  // namespace

Result<std::vector<uint64_t>> parse_byte_sweep(std::string_view text) {
  return parse(text, kBytes);
}

Result<std::vector<int>> parse_rank_sweep(std::string_view text) {
  const auto values = parse(text, kRanks);
  if (!values.ok()) return values.status();
  return std::vector<int>(values->begin(), values->end());
}

}  // namespace unisono
