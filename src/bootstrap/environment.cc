// SPDX-License-Identifier: Apache-2.0
// Launchers' variables, and the bootstrap that they lead to.
#include "bootstrap/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "base/text.h"
#include "bootstrap/listener.h"
#include "bootstrap/star.h"
#include "bootstrap/token.h"

namespace unisono {
namespace {

struct Launcher {
  const char* rank;
  const char* size;
  const char* local_size;  // of this host; or null
  const char* only_with;   // a variable that must be set too; or null
};
constexpr Launcher kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", nullptr},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", nullptr},
    {"SLURM_PROCID", "SLURM_NTASKS", nullptr, "SLURM_STEP_ID"},
};

// How many hosts there are, for launchers that tell no local size.
constexpr const char* kHostCounts[] = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"};

// What tells one job from another, by launcher; all that are set count.
constexpr const char* kJobNames[] = {"TORCHELASTIC_RUN_ID",
                                     "TORCHELASTIC_RESTART_COUNT",
                                     "MASTER_ADDR",
                                     "MASTER_PORT",
                                     "WORLD_SIZE",
                                     "PMIX_NAMESPACE",
                                     "OMPI_MCA_orte_hnp_uri",
                                     "SLURM_JOB_ID",
                                     "SLURM_STEP_ID"};
// Any of these names a job by itself; with none of them the ranks' parent does.
constexpr const char* kEnough[] = {"PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri", "SLURM_STEP_ID"};

constexpr int64_t kMaxRanks = 1 << 20;

Result<int64_t> number(const char* name, const std::string& text, int64_t least, int64_t most) {
  const auto value = parse_integer(text);
  if (value && *value >= least && *value <= most) return *value;
  return invalid_argument(
      fmt::format("{}={}: expected a number from {} to {}", name, text, least, most));
}

// Whose variables gave rank and size; null for none.
Result<const Launcher*> read_rank(const Environment& environment, JobPlace& place) {
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.only_with != nullptr && !environment(launcher.only_with)) continue;
    const auto rank = environment(launcher.rank), size = environment(launcher.size);
    if (!rank && !size) continue;
    if (!rank || !size)
      return invalid_argument(fmt::format("{} is set but {} is not: expected both or neither",
                                          rank ? launcher.rank : launcher.size,
                                          rank ? launcher.size : launcher.rank));
    const auto size_value = number(launcher.size, *size, 1, kMaxRanks);
    if (!size_value.ok()) return size_value.status();
    const auto rank_value = number(launcher.rank, *rank, 0, *size_value - 1);
    if (!rank_value.ok()) return rank_value.status();
    place.size = static_cast<int>(*size_value);
    place.rank = static_cast<int>(*rank_value);
    return &launcher;
  }
  return nullptr;
}

// When a process started, in ticks since boot: field 22 of proc_pid_stat(5). Process numbers come
// back.
std::string start_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto fields =
      split(std::string_view(text).substr(text.rfind(')') + 1), ' ');  // [0] is empty, [1] field 3
  return fields.size() > 20 ? std::string(fields[20]) : std::string();
}

std::string token_of(const Settings& settings, const Environment& environment, bool local) {
  if (const std::string& given = settings.text(Setting::kJobToken); !given.empty()) return *parse_hexadecimal(given);
  std::string words = "unisono job";
  for (const char* name : kJobNames)
    words += fmt::format("\n{}={}", name, environment(name).value_or(""));
  bool enough = !local;
  for (const char* name : kEnough) enough = enough || environment(name).has_value();
  if (!enough) words += fmt::format("\nparent={} {}", getppid(), start_of(getppid()));
  if (local) words += fmt::format("\nuser={}", geteuid());
  return derive_token(words);
}

// Launchers start each other: only what the innermost one says counts.
Status check_one_host(const Environment& environment, const Launcher& launcher,
                      const JobPlace& place) {
  constexpr std::string_view kAdvice =
      "ranks on several hosts need MASTER_ADDR (rank 0's host) and MASTER_PORT";
  const auto local =
      launcher.local_size == nullptr ? std::nullopt : environment(launcher.local_size);
  if (local && *local != std::to_string(place.size))
    return invalid_argument(fmt::format("{}={} of {} ranks: {}", launcher.local_size, *local,
                                        place.size, kAdvice));
  if (local) return Status();
  for (const char* name : kHostCounts)
    if (const auto hosts = environment(name); hosts && *hosts != "1")
      return invalid_argument(fmt::format("{}={}: {}", name, *hosts, kAdvice));
  return Status();
}

Status read_master(const Environment& environment, JobPlace& place) {
  const auto host = environment("MASTER_ADDR"), port = environment("MASTER_PORT");
  for (const auto& [name, value] : {std::pair{"MASTER_ADDR", host}, std::pair{"MASTER_PORT", port}})
    if (!value || value->empty())
      return invalid_argument(
          fmt::format("{} is not set: bootstrap tcp expects rank 0's host in "
                      "MASTER_ADDR and a free port of it in MASTER_PORT",
                      name));
  const bool shifted = environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  const auto value = number("MASTER_PORT", *port, 1, shifted ? 65534 : 65535);
  if (!value.ok()) return value.status();
  place.host = *host;
  place.port = static_cast<uint16_t>(*value + (shifted ? 1 : 0));
  return Status();
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

Result<JobPlace> find_job(const Settings& settings, const Environment& environment) {
  JobPlace place;
  const auto launcher = read_rank(environment, place);
  if (!launcher.ok()) return launcher.status();
  if (place.size == 1) return place;
  const std::string& way = settings.text(Setting::kBootstrap);
  const bool local =
      way == "local" || (way == "auto" && environment("MASTER_ADDR").value_or("").empty());
  place.way = local ? JobPlace::Way::kLocal : JobPlace::Way::kTcp;
  UNISONO_RETURN_IF_ERROR(local ? check_one_host(environment, **launcher, place)
                                : read_master(environment, place));
  place.token = token_of(settings, environment, local);
  return place;
}

Result<std::unique_ptr<Bootstrap>> make_process_bootstrap(const Settings& settings,
                                                          Deadline deadline,
                                                          const Environment& environment) {
  auto place = find_job(settings, environment);
  if (!place.ok()) return place.status();
  if (place->way == JobPlace::Way::kAlone) return std::move(make_thread_bootstraps(1).front());
  StarOptions options{place->rank, place->size, place->token, {}, {}, Log(settings, place->rank)};
  const bool local = place->way == JobPlace::Way::kLocal;
  if (place->rank != 0 && local) {
    options.rendezvous = {local_endpoint(place->token)};
  } else if (place->rank != 0) {
    auto endpoints = resolve(place->host, place->port, deadline);
    if (!endpoints.ok()) return endpoints.status().in("MASTER_ADDR");
    options.rendezvous = endpoints.take();
  } else if (local) {
    auto listener = listen_on(local_endpoint(place->token));
    if (!listener.ok()) return listener.status();
    options.listeners.push_back(listener.take());
  } else {
    auto listeners = listen_for(place->host, place->port, settings);
    if (!listeners.ok()) return listeners.status();
    options.listeners = listeners.take();
  }
  return join_star(std::move(options), deadline);
}

Result<std::unique_ptr<Bootstrap>> make_process_bootstrap(const Settings& settings,
                                                          Deadline deadline) {
  return make_process_bootstrap(settings, deadline, process_environment());
}

}  // namespace unisono
