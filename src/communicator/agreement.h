// SPDX-License-Identifier: Apache-2.0
// agree: before anything else, all ranks of a communicator compare what must be the same on all of
// them.
#pragma once

#include <vector>

#include "base/deadline.h"
#include "base/settings.h"
#include "base/status.h"
#include "bootstrap/bootstrap.h"
#include "communicator/communicator.h"

namespace unisono {

struct Agreement {
  std::vector<int> hosts;  // of each rank, numbered from 0 in order of appearance
  int local_ranks = 1;     // ranks on my host
  int local_rank = 0;      // my place among them
  int usable_cpus = 1;     // that they share
  bool same_cpus = false;  // each of them may use the same ones: nobody has bound them
};

// Collective. kMismatch naming the first rank that differs and both values.
Result<Agreement> agree(Bootstrap& bootstrap, const Settings& settings,
                        const CommunicatorOptions& options, Deadline deadline);

}  // namespace unisono
