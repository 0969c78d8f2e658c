// SPDX-License-Identifier: Apache-2.0
// Algorithms with one planted fault each, which verify() must find.
#pragma once

#include <span>

#include "schedule/algorithm.h"
#include "schedule/verify.h"

namespace unisono {

struct Canary {
  Algorithm algorithm;  // for three ranks and more
  Fault fault;
  std::string_view explanation;  // part of it, at three ranks
};

std::span<const Canary> canaries();

}  // namespace unisono
