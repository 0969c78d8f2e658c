// SPDX-License-Identifier: Apache-2.0
// Ways of bringing the ranks of a bootstrap together, and the contract of a good day.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "bootstrap/bootstrap.h"
#include "bootstrap/star.h"

namespace unisono::testing {

using Made = Result<std::unique_ptr<Bootstrap>>;
using MakeRank = std::function<Made(int rank, Deadline)>;
constexpr std::chrono::seconds kLong(30);

uint16_t free_port(const char* host);

// What join_star() needs but for rank 0's listener.
StarOptions star(int rank, int size, const std::string& token, const Endpoint& where);
MakeRank local_star(int size);
MakeRank tcp_star(const char* host, int size);

// Runs `body` on every rank as a thread.
void on_threads(const MakeRank& make, int size, const std::function<void(int, Made)>& body,
                std::chrono::nanoseconds timeout = kLong);

// A process that exits with 0 if the body says true; and its exit status (128 + signal).
pid_t fork_rank(const std::function<bool()>& body);
int exit_status(pid_t child);

// Several rounds of all_gather; empty, or what went wrong.
std::string gather_some(Made made, int rank, int size);

}  // namespace unisono::testing
