// SPDX-License-Identifier: Apache-2.0
// The local launcher behind `unisono run`: n processes of one host as the ranks of a job.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace unisono {

struct LaunchOptions {
  int ranks = 1;
  std::vector<std::string> argv;  // program (looked up in PATH) and its arguments; not empty
  bool label = true;  // "[2] " before every line; false: ranks write straight to our own outputs
  std::string command = "unisono run";  // in front of the cause
  bool tell_status = true;  // false: a rank that exits with a failure has told the cause itself
  // Each rank gets an equal share of the cores that the launcher may use, with all their hardware threads; where
  // there are fewer cores than ranks, of the CPUs, also one CPU for several ranks; where that is not even, all.
  bool bind = true;
  std::chrono::nanoseconds timeout{0};                       // for the whole job; 0: none
  std::chrono::nanoseconds grace = std::chrono::seconds(5);  // from SIGTERM to SIGKILL
};

// Runs the job and returns its exit status: 0 when every rank exited with 0; else of the first rank
// that failed (128 + signal if one killed it), 127 if the program cannot be started, 124 after the
// timeout, 128 + signal if SIGINT, SIGTERM or SIGHUP stopped the launcher. The cause is one line on
// stderr.
//
// Each rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, a fresh UNISONO_JOB_TOKEN and
// UNISONO_BOOTSTRAP=local, a process group of its own, and dies with the launcher however that
// dies. Standard input goes to rank 0. Lines of one rank stay in order; a last line without an end
// gets one.
//
// Blocks. For a process whose main thread is the launcher: uses SIGCHLD and the signals above
// (their mask is restored at the end), forks, and reaps only its own ranks.
int launch(const LaunchOptions& options);

}  // namespace unisono
