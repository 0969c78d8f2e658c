// SPDX-License-Identifier: Apache-2.0
// What the settings say of choosing: read and checked in one place, before anybody is connected.
#pragma once

#include <optional>

#include "base/settings.h"
#include "base/status.h"
#include "schedule/algorithm.h"
#include "select/rules.h"

namespace unisono {

struct Policy {
  Rules rules;                   // of kRules, else the built-in ones
  std::optional<Choice> forced;  // by kAlgorithm
};

// Errors: kInvalidArgument and kUnsupported naming the setting: kAlgorithm, kRules, kTransport.
Result<Policy> read_policy(const Settings& settings);

}  // namespace unisono
