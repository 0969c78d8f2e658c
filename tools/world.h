// SPDX-License-Identifier: Apache-2.0
// What all ranks of a measurement find out and agree on together. Collective functions.
#pragma once

#include <vector>

#include "base/status.h"
#include "communicator/communicator.h"

namespace unisono {

// Where the ranks live.
struct World {
  int hosts = 1;
  int local_ranks = 1;  // on my host
  std::vector<int> host_of;  // each rank, as Shape::groups
};
Result<World> survey(Communicator& communicator);

// All ranks get the failure of the first rank that has one, or ok. Where the ranks cannot be asked
// any more, the error says so and `reached` is false.
Status agree(Communicator& communicator, const Status& mine, bool* reached = nullptr);

}  // namespace unisono
