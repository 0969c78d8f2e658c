// SPDX-License-Identifier: Apache-2.0
// How a command comes to run on all ranks of a job, whoever started them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/settings.h"
#include "base/status.h"
#include "communicator/communicator.h"

namespace unisono {

struct JobOptions {
  std::string_view command;  // "bench"
  int ranks = 1;
  bool as_threads = false;
  std::string transport;  // sets UNISONO_TRANSPORT unless empty
};

// Settings of the environment with the transport of the flags.
Result<Settings> settings_for(const JobOptions& options);

// Runs `body` on every rank and returns this process's exit status:
// - under a launcher (the environment says rank and size) as that rank;
// - alone, with processes: starts this program again, with the same arguments, as `ranks` local
// ranks;
// - alone, with threads or one rank: here.
// A failure that all ranks know of is rank 0's to tell: the others end with 0. Any other failure is
// told by each rank that has it.
Result<int> run_job(const JobOptions& options, const std::function<Status(Communicator&)>& body);

int exit_status_of(const Status& status);  // 0; 2 for a caller's mistake; 1

}  // namespace unisono
