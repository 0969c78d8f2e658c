// SPDX-License-Identifier: Apache-2.0
// The contract of a bootstrap: how ranks find each other before there is a transport.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/settings.h"
#include "base/status.h"

namespace unisono {

// One thread at a time. Lives as long as its communicator.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // 16 bytes, the same on all ranks of the job, unknown to strangers.
  virtual std::string job_token() const = 0;
  // Collective: every rank's bytes (any length, at most 16 MiB), in rank order.
  // Errors: kTimeout naming the missing ranks; kPeerFailed naming who left.
  virtual Result<std::vector<std::string>> all_gather(std::string_view mine, Deadline deadline) = 0;
};

// Ranks as threads of one process: `size` bootstraps that meet in memory. Thread-safe among themselves.
std::vector<std::unique_ptr<Bootstrap>> make_thread_bootstraps(int size);

// Ranks as processes, found through settings (UNISONO_*) and the environment of the launcher.
Result<std::unique_ptr<Bootstrap>> make_process_bootstrap(const Settings& settings, Deadline deadline);

}  // namespace unisono
