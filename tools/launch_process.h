// SPDX-License-Identifier: Apache-2.0
// One rank of a local job as a process: starting it, and its output line by line.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace unisono {

// What a line-labelled output still holds. Owns the read end.
class LabelledOutput {
 public:
  LabelledOutput(int source, int sink, std::string label)
      : source_(source), sink_(sink), label_(std::move(label)) {}
  LabelledOutput(const LabelledOutput&) = delete;
  LabelledOutput& operator=(const LabelledOutput&) = delete;
  ~LabelledOutput();

  int source() const { return source_; }  // -1 after the end
  // Passes on the whole lines of what a pipe can hold; does not block on the source.
  void drain();
  // Passes on what is left, closing a last line that has no end.
  void finish();

 private:
  void pass_lines();

  int source_, sink_;
  std::string label_, pending_;
};

struct ProcessOptions {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value"
  bool reads_input = false;              // else standard input is empty
  bool own_group = true;
  int out = -1, err = -1;      // become its standard outputs; -1: inherited
  sigset_t signal_mask{};      // of the new process
  std::vector<int> cpus = {};  // that it may use; empty: as the launcher
};

// The process, or -1 with errno of the step that failed (ENOENT: no such program).
pid_t start_process(const ProcessOptions& options);

}  // namespace unisono
