// SPDX-License-Identifier: Apache-2.0
// A round of agreement: every rank says what it does, how that went and what others need for what follows; all
// hear all, and so come to the same conclusion.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace unisono {

// Collective: every rank's bytes, by rank.
using Gather = std::function<Result<std::vector<std::string>>(std::string_view mine)>;

struct RankReport {
  std::string deed;  // "allocates 64 bytes"; the same on all ranks
  Status status;
  std::string detail = {};
};

// Collective. The reports of all ranks, by rank. Errors: `gather`'s; kMismatch, the same on all ranks, naming two
// that do not do the same.
Result<std::vector<RankReport>> report_to_all(const Gather& gather, const RankReport& mine);

// Of the first rank whose status is not ok; -1: there is none.
int first_failed(std::span<const RankReport> reports);

}  // namespace unisono
