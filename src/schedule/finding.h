// SPDX-License-Identifier: Apache-2.0
// What the parts of verify() hand to one another: a fault and its explanation, matched messages.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "schedule/verify.h"

namespace unisono {

struct Finding {
  Fault fault;
  std::string explanation;
};
using MaybeFinding = std::optional<Finding>;

// "rank 2 step 3 (recv_reduce chunk 1  output = from 1 #0 + input)"
std::string where(const Schedule& schedule, size_t step);

// Indices, spaces and counts make sense; after this, all accessors of the schedules are safe.
MaybeFinding check_form(std::span<const Schedule> schedules, const VerifyOptions& options);

// No two steps of this rank touch one place in no order, one of them writing. Input and output
// count as one place.
MaybeFinding check_races(const Schedule& schedule);

// A message and the steps at its ends.
struct Message {
  int from, to;
  uint32_t number;
  uint32_t send, receive;
};

// Pairs every send with its receive; ascending by (from, to, number).
MaybeFinding match_messages(std::span<const Schedule> schedules, std::vector<Message>& messages);

}  // namespace unisono
