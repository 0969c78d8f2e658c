// SPDX-License-Identifier: Apache-2.0
// Flags of a command, apart from the library that parses them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace unisono {

// What a command declares. References must outlive parsing.
class Flags {
 public:
  virtual ~Flags() = default;

  // `names` as "-n,--ranks". The value that `target` has is the default, and is shown in the help.
  virtual void text(const std::string& names, std::string& target, const std::string& what,
                    const std::string& help) = 0;
  virtual void toggle(const std::string& names, bool& target, const std::string& help) = 0;
  // All words from the first that is no flag, or after "--".
  virtual void program(std::vector<std::string>& words) = 0;
};

// A subcommand. An error that is kInvalidArgument or kUnsupported ends the tool with 2, another
// with 1.
class Command {
 public:
  virtual ~Command() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;  // one line
  virtual std::string_view example() const = 0;  // command lines
  virtual void declare(Flags& flags) = 0;
  virtual Result<int> run() = 0;  // exit status
};

// The flag's name in front of what was wrong with its value.
inline Status bad_value(std::string_view flag, std::string_view value, std::string_view expected) {
  return invalid_argument(std::string(flag) + " " + std::string(value) + ": expected " +
                          std::string(expected));
}

// The same in front of a message that begins with the value.
inline Status bad_value(std::string_view flag, const Status& status) {
  return Status(status.code(), std::string(flag) + " " + std::string(status.message()));
}

std::unique_ptr<Command> make_bench_command();
std::unique_ptr<Command> make_compare_command();
std::unique_ptr<Command> make_explain_command();
std::unique_ptr<Command> make_run_command();
std::unique_ptr<Command> make_settings_command();
std::unique_ptr<Command> make_topology_command();
std::unique_ptr<Command> make_verify_command();

}  // namespace unisono
