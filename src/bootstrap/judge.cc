// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/judge.h"

#include <fmt/format.h>

#include <utility>

namespace unisono {

void Judge::decide(Status verdict) {
  if (verdict_.ok()) verdict_ = std::move(verdict);
}

void Judge::hear(int rank, Word word, const Status& cause, std::string statement) {
  if (word == Word::kLeaves) left_[static_cast<size_t>(rank)] = true;
  if (!statement.empty()) {
    statements_[static_cast<size_t>(rank)] = std::move(statement);
    if (verdict_.ok()) decide(options_.compare(statements_));
  }
  if (word == Word::kFailure) decide(cause.in(fmt::format("rank {}", rank)));
}

void Judge::hear_end(int rank, std::string_view reason) {
  if (has_left(rank)) return;
  left_[static_cast<size_t>(rank)] = true;
  decide(Status(StatusCode::kPeerFailed,
                fmt::format("rank {} died: {} ({})", rank, reason, options_.phase())));
}

}  // namespace unisono
