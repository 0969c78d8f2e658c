// SPDX-License-Identifier: Apache-2.0
// Shape: all that an algorithm may know when it builds a schedule. Never bytes, never pointers.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.h"

namespace unisono {

// Resolved parameters of an algorithm: every one that its row declares, given or default, in the
// row's order. Values are kept as text ("2", "ring"); `integer` converts.
class Parameters {
 public:
  void set(std::string_view name, std::string_view value);
  bool has(std::string_view name) const;
  // Precondition: the row declares `name` (and, for integer, that it is one).
  std::string_view text(std::string_view name) const;
  int integer(std::string_view name) const;

  const std::vector<std::pair<std::string, std::string>>& entries() const { return entries_; }
  bool operator==(const Parameters&) const = default;

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

struct Shape {
  Collective collective = Collective::kAllReduce;
  int rank = 0;
  int size = 1;
  int root = 0;  // who reduces in a centralised algorithm
  Parameters parameters = {};
  std::vector<int> servers = {};  // ranks that contribute nothing (ascending); they still get the result
  std::vector<int> groups = {};   // host of each rank, numbered from 0; empty: all on one host

  bool contributes(int peer) const;
  int contributors() const { return size - static_cast<int>(servers.size()); }
  int hosts() const;
  // The rank `distance` places after mine on a circle (negative: before).
  int neighbour(int distance) const { return ((rank + distance) % size + size) % size; }
};

}  // namespace unisono
