// SPDX-License-Identifier: Apache-2.0
// unisono run: the ranks of a program on this host.
#include <csignal>

#include "base/text.h"
#include "tools/command.h"
#include "tools/launch.h"
#include "tools/measure_options.h"

namespace unisono {
namespace {

constexpr int kMostRanks = 1024;

class Run final : public Command {
 public:
  std::string_view name() const override { return "run"; }
  std::string_view summary() const override {
    return "start a program as local ranks, and end the job when one fails";
  }
  std::string_view example() const override { return "unisono run -n 4 -- ./train --epochs 3"; }

  void declare(Flags& flags) override {
    flags.text("-n,--ranks", ranks_, "N", "ranks to start");
    flags.text("--timeout", timeout_, "DURATION", "end the job after 30s, 5m, …");
    flags.toggle("--no-labels", plain_, "leave out the [rank] in front of each line");
    flags.toggle("--no-bind", unbound_, "let every rank use all CPUs");
    flags.program(program_);
  }

  Result<int> run() override {
    LaunchOptions options;
    const auto ranks = parse_count("--ranks", ranks_, 1, kMostRanks);
    if (!ranks.ok()) return ranks.status();
    options.ranks = *ranks;
    if (!timeout_.empty()) {
      const auto timeout = parse_duration(timeout_);
      if (!timeout || timeout->count() == 0)
        return bad_value("--timeout", timeout_, "a duration like 30s, 5m or 250ms");
      options.timeout = *timeout;
    }
    if (program_.empty())
      return invalid_argument("expected a program: unisono run -n 4 -- PROGRAM …");
    options.argv = program_;
    options.label = !plain_;
    options.bind = !unbound_;
    std::signal(SIGPIPE, SIG_DFL);  // the program must find what it would find without us
    return launch(options);
  }

 private:
  std::string ranks_ = "2";
  std::string timeout_;
  bool plain_ = false, unbound_ = false;
  std::vector<std::string> program_;
};

}  // namespace

std::unique_ptr<Command> make_run_command() {
  return std::make_unique<Run>();
}

}  // namespace unisono
