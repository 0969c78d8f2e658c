// SPDX-License-Identifier: Apache-2.0
#include "tools/job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "bootstrap/environment.h"
#include "communicator/policy.h"
#include "tools/launch.h"
#include "tools/world.h"

namespace unisono {
namespace {

// What this rank's part came to.
struct Outcome {
  Status status;
  bool common = false;  // all ranks know of it
};

Outcome run_rank(Result<std::unique_ptr<Bootstrap>> bootstrap, const Settings& settings,
                 const std::function<Status(Communicator&)>& body) {
  if (!bootstrap.ok()) return {bootstrap.status(), false};
  auto communicator = Communicator::create(bootstrap.take(), settings);
  if (!communicator.ok()) return {communicator.status(), false};
  Outcome outcome{body(**communicator), false};
  const Status agreed = agree(**communicator, outcome.status, &outcome.common);
  if (outcome.status.ok()) outcome.status = agreed;
  return outcome;
}

// What the job of these ranks came to: rank 0's failure, else the first one.
Status run_threads(int ranks, const Settings& settings,
                   const std::function<Status(Communicator&)>& body) {
  auto bootstraps = make_thread_bootstraps(ranks);
  std::vector<Status> statuses(bootstraps.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < bootstraps.size(); ++rank) {
    threads.emplace_back([&, rank] {
      statuses[rank] = run_rank(std::move(bootstraps[rank]), settings, body).status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses)
    if (!status.ok()) return status;
  return Status();
}

// This program again, with the arguments that it was given.
Result<std::vector<std::string>> own_command_line() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return Status(StatusCode::kSystem,
                  "cannot find this program: /proc/self/exe: " + error.message());
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (words.empty()) return Status(StatusCode::kSystem, "cannot read /proc/self/cmdline");
  words.front() = program;
  return words;
}

}  // namespace

int exit_status_of(const Status& status) {
  if (status.ok()) return 0;
  return status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kUnsupported
             ? 2
             : 1;
}

Result<Settings> settings_for(const JobOptions& options) {
  auto settings = Settings::from_environment(environ);
  if (!settings.ok()) return settings;
  if (!options.transport.empty())
    UNISONO_RETURN_IF_ERROR(settings->set("UNISONO_TRANSPORT", options.transport, "--transport"));
  if (const auto policy = read_policy(*settings); !policy.ok()) return policy.status();
  return settings;
}

Result<int> run_job(const JobOptions& options, const std::function<Status(Communicator&)>& body) {
  const auto settings = settings_for(options);
  if (!settings.ok()) return settings.status();
  const auto place = find_job(*settings, process_environment());
  if (!place.ok()) return place.status();
  if (place->way != JobPlace::Way::kAlone) {
    const Deadline deadline = Deadline::after(settings->duration(Setting::kTimeout));
    const Outcome outcome = run_rank(make_process_bootstrap(*settings, deadline), *settings, body);
    if (outcome.status.ok()) return 0;
    if (place->rank == 0) return outcome.status;
    // Rank 0 tells what all know; a launcher must not end it for our sake before it has.
    if (outcome.common) return 0;
    return outcome.status.in(fmt::format("rank {}", place->rank));
  }
  if (options.as_threads || options.ranks == 1) {
    UNISONO_RETURN_IF_ERROR(run_threads(options.ranks, *settings, body));
    return 0;
  }
  auto words = own_command_line();
  if (!words.ok()) return words.status();
  const int status = launch({.ranks = options.ranks,
                             .argv = words.take(),
                             .label = false,
                             .command = fmt::format("unisono {}", options.command),
                             .tell_status = false});
  // A rank that died failed the run; a person who stopped it is told so by the usual status.
  const bool stopped = status == 128 + SIGINT || status == 128 + SIGTERM || status == 128 + SIGHUP;
  return status <= 2 || stopped ? status : 1;
}

}  // namespace unisono
