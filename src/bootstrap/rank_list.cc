// SPDX-License-Identifier: Apache-2.0
// Ranks in a sentence.
#include "bootstrap/rank_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace unisono {

std::string rank_list(const std::vector<int>& ranks) {
  constexpr size_t kShown = 16;
  const auto end = ranks.begin() + static_cast<ptrdiff_t>(std::min(ranks.size(), kShown));
  std::string text =
      fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks.begin(), end, ", "));
  if (ranks.size() > kShown) text += fmt::format(", … ({} in all)", ranks.size());
  return text;
}

}  // namespace unisono
