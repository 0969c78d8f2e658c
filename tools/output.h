// SPDX-License-Identifier: Apache-2.0
// Where tables and records go: standard output or a file; and progress on a terminal.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace unisono {

// Owns its descriptor unless it is standard output. Unbuffered: what was written is there.
class Output {
 public:
  static Output standard();
  // Creates or empties the file; "-" is standard output. kInvalidArgument if that cannot be done.
  static Result<Output> open(const std::string& path);
  Output(Output&& other) noexcept;
  Output& operator=(Output&& other) noexcept;
  ~Output();

  // kSystem with the file's name. Precondition for a closed pipe to be an error: SIGPIPE is
  // ignored.
  Status write(std::string_view text);

 private:
  Output(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}
  int descriptor_;
  std::string name_;
};

// One line on standard error that is written over; nothing at all when that is not a terminal.
class Progress {
 public:
  Progress();
  ~Progress() { clear(); }
  void show(std::string_view line);
  void clear();

 private:
  bool on_terminal_;
  bool shown_ = false;
};

}  // namespace unisono
