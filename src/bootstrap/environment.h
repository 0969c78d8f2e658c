// SPDX-License-Identifier: Apache-2.0
// Who this process is in its job, read from the variables that launchers set.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/settings.h"
#include "base/status.h"
#include "bootstrap/bootstrap.h"

namespace unisono {

// The value of an environment variable; tests hand in a table.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

// A process's place in its job.
//
// Rank and size: the first pair that is set of RANK and WORLD_SIZE (torchrun, `unisono run`),
// OMPI_COMM_WORLD_RANK and _SIZE (Open MPI), PMI_RANK and PMI_SIZE (MPICH), SLURM_PROCID and
// SLURM_NTASKS (only in a step: an allocation alone sets them too); none: a world of one.
//
// Way: UNISONO_BOOTSTRAP if it names one; auto: tcp where MASTER_ADDR is set, local otherwise.
//
// Token: UNISONO_JOB_TOKEN; else derived from what the launcher says of the job, which is no
// secret: other users of the network (tcp) could compute it. Under torchrun, whose own store has
// MASTER_PORT, ranks meet at the port after it.
struct JobPlace {
  enum class Way { kAlone, kLocal, kTcp };

  int rank = 0;
  int size = 1;
  Way way = Way::kAlone;
  std::string token;  // kTokenBytes; empty when alone
  std::string host;   // tcp: of rank 0
  uint16_t port = 0;  // tcp
};

// Errors: kInvalidArgument naming the variable, what it says and what was expected.
Result<JobPlace> find_job(const Settings& settings, const Environment& environment);

Result<std::unique_ptr<Bootstrap>> make_process_bootstrap(const Settings& settings,
                                                          Deadline deadline,
                                                          const Environment& environment);

}  // namespace unisono
