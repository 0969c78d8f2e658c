// SPDX-License-Identifier: Apache-2.0
// The one rule of how chunks divide elements, and the small accessors of Shape.
#include "schedule/schedule.h"

#include <algorithm>
#include <cassert>
#include <charconv>

#include "schedule/shape.h"

namespace unisono {
namespace {

constexpr size_t kBoundary = 64;  // elements: at least a cache line of any type, whole 64-bit sign words

size_t boundary(uint64_t index, uint32_t chunks, size_t count) {
  const size_t unit = count >= chunks * kBoundary ? kBoundary : 1;
  const size_t units = count / unit;
  if (index == chunks) return count;
  // index * units / chunks without overflow at any count.
  return (units / chunks * index + units % chunks * index / chunks) * unit;
}

}  // namespace

ElementRange elements_of(ChunkRange range, uint32_t chunks, size_t count) {
  return {boundary(range.first, chunks, count),
          boundary(uint64_t{range.first} + range.count, chunks, count)};
}

void Parameters::set(std::string_view name, std::string_view value) {
  for (auto& [key, text] : entries_) {
    if (key == name) {
      text = value;
      return;
    }
  }
  entries_.emplace_back(name, value);
}

bool Parameters::has(std::string_view name) const {
  return std::ranges::any_of(entries_, [&](const auto& entry) { return entry.first == name; });
}

std::string_view Parameters::text(std::string_view name) const {
  for (const auto& [key, value] : entries_)
    if (key == name) return value;
  assert(false && "the algorithm's row does not declare this parameter");
  return {};
}

int Parameters::integer(std::string_view name) const {
  const std::string_view value = text(name);
  int number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

bool Shape::contributes(int peer) const { return !std::ranges::binary_search(servers, peer); }

int Shape::hosts() const {
  return groups.empty() ? 1 : *std::ranges::max_element(groups) + 1;
}

}  // namespace unisono
