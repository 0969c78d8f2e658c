// SPDX-License-Identifier: Apache-2.0
// The unisono command: finds the subcommand, reads its flags, and tells errors in one line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>

#include "base/text.h"
#include "tools/command.h"
#include "tools/job.h"
#include "tools/output.h"

namespace unisono {
namespace {

class CliFlags final : public Flags {
 public:
  explicit CliFlags(CLI::App& app) : app_(app) {}

  void text(const std::string& names, std::string& target, const std::string& what,
            const std::string& help) override {
    CLI::Option* option = app_.add_option(names, target, help)->option_text(what);
    // The commands take an empty text for a flag that is not there.
    option->check([](const std::string& value) { return std::string(value.empty() ? "expected a value" : ""); }, "");
    if (!target.empty()) option->option_text(what + " (" + target + ")");
  }
  void toggle(const std::string& names, bool& target, const std::string& help) override {
    app_.add_flag(names, target, help)->disable_flag_override();
  }
  void program(std::vector<std::string>& words) override {
    program_ = &words;
    app_.prefix_command();
  }

  // After parsing; `behind` are the words after "--". kInvalidArgument naming a word that is no
  // flag.
  Status take_rest(const std::vector<std::string>& behind) {
    std::vector<std::string> rest = app_.remaining();
    const bool is_program = program_ != nullptr && (rest.empty() || !rest.front().starts_with("-"));
    if (!is_program && !rest.empty()) return unknown(rest.front());
    rest.insert(rest.end(), behind.begin(), behind.end());
    if (is_program)
      *program_ = rest;
    else if (!rest.empty())
      return unknown(rest.front());
    return Status();
  }

 private:
  Status unknown(const std::string& word) const {
    if (!word.starts_with("-"))
      return invalid_argument(fmt::format("unexpected word '{}': see --help", word));
    std::vector<std::string> names;
    for (const CLI::Option* option : app_.get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    const std::string flag = word.substr(0, word.find('='));
    const std::vector<std::string_view> known(names.begin(), names.end());
    const std::string_view nearest = nearest_name(flag, known);
    return invalid_argument(nearest.empty()
                                ? fmt::format("unknown flag {}: see --help", flag)
                                : fmt::format("unknown flag {}: did you mean {}?", flag, nearest));
  }

  CLI::App& app_;
  std::vector<std::string>* program_ = nullptr;
};

int fail(std::string_view command, const Status& status) {
  fmt::print(stderr, "unisono{}{}: {}\n", command.empty() ? "" : " ", command, status.message());
  return exit_status_of(status);
}

std::vector<std::unique_ptr<Command>> make_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_compare_command());
  commands.push_back(make_bench_command());
  commands.push_back(make_run_command());
  commands.push_back(make_verify_command());
  commands.push_back(make_explain_command());
  commands.push_back(make_topology_command());
  commands.push_back(make_settings_command());
  return commands;
}

int print_help(const CLI::App& app, const std::string& above) {
  const Status status = Output::standard().write(app.help(above));
  return status.ok() ? 0 : fail("", status);
}

std::string indented(std::string_view lines) {
  std::string text;
  for (std::string_view line : split(lines, '\n')) text += fmt::format("\n  {}", line);
  return text;
}

// "--bytes: 1 required TEXT missing"
Status in_our_words(const CLI::ParseError& error) {
  const std::string message = error.what();
  const bool is_flag = message.starts_with("-");
  const std::string flag = message.substr(0, message.find_first_of(": "));
  if (is_flag && message.ends_with("missing")) return invalid_argument(flag + ": expected a value");
  if (message.ends_with("override"))
    return invalid_argument("--" + message.substr(0, message.find(' ')) + ": expected no value");
  if (is_flag && message.find("At Most 1") != std::string::npos)
    return invalid_argument(flag + ": expected only once");
  return invalid_argument(message.substr(0, message.find('\n')));
}

// Whether there is a command of that name.
Status check_command(const std::vector<std::unique_ptr<Command>>& commands, std::string_view word) {
  std::vector<std::string_view> names;
  for (const auto& command : commands) names.push_back(command->name());
  if (std::ranges::find(names, word) != names.end() || word == "--help" || word == "-h" ||
      word == "--version")
    return Status();
  const std::string expected = fmt::format("{}", fmt::join(names, ", "));
  if (word.empty()) return invalid_argument("expected a command: " + expected);
  const std::string_view nearest = nearest_name(word, names);
  return invalid_argument(
      nearest.empty() ? fmt::format("unknown command '{}': expected one of {}", word, expected)
                      : fmt::format("unknown command '{}': did you mean {}?", word, nearest));
}

int run(int argc, const char* const* argv) {
  const auto commands = make_commands();
  if (const Status known = check_command(commands, argc > 1 ? argv[1] : ""); !known.ok())
    return fail("", known);

  CLI::App app("All-reduce between ranks: measured, compared, proven and explained.", "unisono");
  app.set_version_flag("--version", UNISONO_VERSION);
  std::vector<std::unique_ptr<CliFlags>> flags;
  std::vector<CLI::App*> subcommands;
  for (const auto& command : commands) {
    CLI::App* sub =
        app.add_subcommand(std::string(command->name()), std::string(command->summary()));
    sub->footer("\nExample:" + indented(command->example()));
    sub->allow_extras();
    flags.push_back(std::make_unique<CliFlags>(*sub));
    subcommands.push_back(sub);
    command->declare(*flags.back());
  }
  // The library would look for flags after "--" too.
  const auto* const end = argv + argc;
  const auto* const bar = std::find(argv, end, std::string_view("--"));
  const std::vector<std::string> behind(bar == end ? end : bar + 1, end);
  try {
    app.parse(static_cast<int>(bar - argv), argv);
  } catch (const CLI::CallForVersion&) {
    const Status status = Output::standard().write("unisono " UNISONO_VERSION "\n");
    return status.ok() ? 0 : fail("", status);
  } catch (const CLI::CallForHelp&) {
    for (CLI::App* sub : subcommands)
      if (sub->parsed()) return print_help(*sub, "unisono");
    return print_help(app, "");
  } catch (const CLI::ParseError& error) {
    return fail(argv[1], in_our_words(error));
  }
  for (size_t i = 0; i < commands.size(); ++i) {
    if (!subcommands[i]->parsed()) continue;
    const Status complete = flags[i]->take_rest(behind);
    if (!complete.ok()) return fail(commands[i]->name(), complete);
    const Result<int> status = commands[i]->run();
    return status.ok() ? *status : fail(commands[i]->name(), status.status());
  }
  return 0;
}

}  // namespace
}  // namespace unisono

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of the write that meets it
  return unisono::run(argc, argv);
}
