// SPDX-License-Identifier: Apache-2.0
// Ranks for tests: threads of this process, or forked processes.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "communicator/communicator.h"

namespace unisono::testing {

// Names of the transports that this build has.
std::vector<std::string> built_transports();

// The defaults, but for a deadline that turns a hang into a failure with a name.
Settings impatient();

struct RankOptions {
  Settings settings = impatient();
  CommunicatorOptions communicator = {};
  std::function<void(int rank)> before = {};  // in each process, before its communicator is made
};

// Runs `body` on `size` ranks as threads, each with its own communicator; ends when all have ended.
// Failures are the body's own expectations; a communicator that cannot be created fails the test.
void run_threads(int size, const std::function<void(Communicator&)>& body,
                 const RankOptions& options = {});

// The same with forked processes over the local bootstrap. `body` returns a process exit status: 0 is good.
// Returns the wait statuses of all ranks, in rank order.
std::vector<int> run_processes(int size, const std::function<int(Communicator&)>& body,
                               const RankOptions& options = {});

// The same where `body` returns what went wrong, or nothing; expects nothing of every rank.
void expect_processes(int size, const std::function<std::string(Communicator&)>& body,
                      const RankOptions& options = {});

// impatient(), with these settings too.
RankOptions options_with(std::initializer_list<std::pair<const char*, const char*>> settings);

}  // namespace unisono::testing
