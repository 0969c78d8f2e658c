// SPDX-License-Identifier: Apache-2.0
// unisono topology: the hosts of a job, where its ranks live on them, and how they wait.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "execute/executor.h"
#include "tools/command.h"
#include "tools/job.h"
#include "tools/measure_options.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/world.h"
#include "topology/host.h"
#include "topology/machine.h"

namespace unisono {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDefaultRanks = 2, kMostRanks = 1024;

Json describe(const Machine& machine) {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  Json caches = Json::array(), cores = Json::array();
  for (const Cache& cache : machine.caches)
    caches.push_back({{"level", cache.level}, {"bytes", cache.bytes}, {"count", cache.count}});
  size_t threads = 0;
  for (const Core& core : machine.cores) {
    cores.push_back(
        {{"package", core.package}, {"numa_node", core.numa_node}, {"cpus", core.cpus}});
    threads += core.cpus.size();
  }
  return {{"name", name},
          {"cpu_model", machine.cpu_model},
          {"packages", machine.packages},
          {"numa_nodes", machine.numa_nodes},
          {"hardware_threads", threads},
          {"memory_bytes", machine.memory_bytes},
          {"caches", caches},
          {"cores", cores}};
}

// What one rank tells of itself. `host` is its machine, told by the first rank of each.
struct Report {
  Json rank, host;
  std::vector<int> cpus;
};

Result<Report> report(const Communicator& communicator, const World& world) {
  const auto machine = this_machine();
  if (!machine.ok()) return machine.status();
  const auto plan = communicator.plan({.count = 1, .choice = {}});
  const int mine = communicator.rank(), host = world.host_of[static_cast<size_t>(mine)];
  const std::vector<int> cpus = allowed_cpus(), cores = cores_of(*machine, cpus);
  Report report{.rank = {{"rank", mine},
                         {"host", host},
                         {"pid", getpid()},
                         {"cpus", cpus},
                         {"cores", cores},
                         {"numa_nodes", numa_nodes_of(*machine, cores)},
                         {"transport", plan.ok() ? plan->transport : "unknown"}},
                .host = {},
                .cpus = {}};
  if (std::ranges::find(world.host_of, host) - world.host_of.begin() == mine) {
    report.host = {{"host", host}};
    report.host.update(describe(*machine));
    const double quota = cpu_quota();
    report.host["cgroup_quota"] = quota < kNoQuota ? Json(quota) : Json();
  }
  return report;
}

// How the ranks of a host wait, given what they all may use.
void add_waiting(Json& host, std::span<const std::vector<int>> masks) {
  const double quota =
      host["cgroup_quota"].is_null() ? kNoQuota : host["cgroup_quota"].get<double>();
  const auto ranks = static_cast<int>(masks.size());
  const int usable = usable_cpus(masks, quota);
  const WaitPolicy policy = wait_policy(ranks, usable);
  host["ranks"] = ranks;
  host["masked_cpus"] = usable_cpus(masks, kNoQuota);
  host["usable_cpus"] = usable;
  host["waiting"] = {{"looks", policy.looks},
                     {"spins", policy.spins},
                     {"direct_spins", policy.direct_spins},
                     {"yields", policy.yields}};
}

// {"hosts": […], "ranks": […]}, the same on all ranks. Collective.
Result<Json> gather_topology(Communicator& communicator) {
  const auto world = survey(communicator);
  if (!world.ok()) return world.status();
  const auto mine = report(communicator, *world);
  UNISONO_RETURN_IF_ERROR(agree(communicator, mine.status()));
  const auto all = communicator.all_gather(Json{{"rank", mine->rank}, {"host", mine->host}}.dump());
  if (!all.ok()) return all.status();
  Json topology = {{"hosts", Json::array()}, {"ranks", Json::array()}};
  std::map<int, std::vector<std::vector<int>>> masks;
  for (const std::string& text : *all) {
    const Json one = Json::parse(text, nullptr, false);
    if (one.is_discarded())
      return Status(StatusCode::kInternal, "a rank sent a report that cannot be read");
    if (!one["host"].is_null()) topology["hosts"].push_back(one["host"]);
    topology["ranks"].push_back(one["rank"]);
    masks[one["rank"]["host"]].push_back(one["rank"]["cpus"]);
  }
  for (Json& host : topology["hosts"]) add_waiting(host, masks[host["host"]]);
  return topology;
}

// "0-3,8"
std::string ranges(const std::vector<int>& ascending) {
  std::string text;
  for (size_t i = 0; i < ascending.size();) {
    size_t last = i;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::format("{}", ascending[i])
                      : fmt::format("{}-{}", ascending[i], ascending[last]);
    i = last + 1;
  }
  return text;
}

std::string number(const Json& value) {
  return value.dump();
}

std::string caches_of(const Json& host, int level) {
  std::vector<std::string> cells;
  for (const Json& cache : host["caches"])
    if (cache["level"] == level)
      cells.push_back(
          fmt::format("{} × {}", cache["count"].get<int>(), format_bytes(cache["bytes"])));
  return cells.empty() ? "-" : fmt::format("{}", fmt::join(cells, ", "));
}

std::string waiting_of(const Json& host) {
  const Json& waiting = host["waiting"];
  return fmt::format("{} looks, {} spins ({} in schedules), {} yields, then sleeps", number(waiting["looks"]),
                     number(waiting["direct_spins"]), number(waiting["spins"]), number(waiting["yields"]));
}

std::string machines_table(const Json& hosts) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& host : hosts)
    rows.push_back({number(host["host"]), host["name"], number(host["packages"]),
                    number(host["numa_nodes"]), number(host["cores"].size()),
                    number(host["hardware_threads"]), caches_of(host, 1), caches_of(host, 2),
                    caches_of(host, 3),
                    fmt::format("{:.1f}Gi", host["memory_bytes"].get<double>() / (1 << 30)),
                    host["cpu_model"]});
  return aligned({{"host"},
                  {"name", 0, Align::kLeft},
                  {"packages"},
                  {"NUMA nodes"},
                  {"cores"},
                  {"threads"},
                  {"L1"},
                  {"L2"},
                  {"L3"},
                  {"memory"},
                  {"CPU model", 0, Align::kLeft}},
                 rows);
}

std::string ranks_table(const Json& ranks) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& rank : ranks)
    rows.push_back({number(rank["rank"]), number(rank["host"]), number(rank["pid"]),
                    ranges(rank["cpus"]), ranges(rank["cores"]), ranges(rank["numa_nodes"]),
                    rank["transport"]});
  return aligned({{"rank"},
                  {"host"},
                  {"pid"},
                  {"CPUs"},
                  {"cores"},
                  {"NUMA node"},
                  {"transport", 0, Align::kLeft}},
                 rows);
}

std::string waiting_table(const Json& hosts) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& host : hosts)
    rows.push_back({number(host["host"]), number(host["ranks"]), number(host["masked_cpus"]),
                    host["cgroup_quota"].is_null() ? "none" : number(host["cgroup_quota"]),
                    number(host["usable_cpus"]), waiting_of(host)});
  return aligned({{"host"},
                  {"ranks"},
                  {"CPUs in masks"},
                  {"cgroup quota"},
                  {"usable CPUs"},
                  {"a rank that waits", 0, Align::kLeft}},
                 rows);
}

class ShowTopology final : public Command {
 public:
  std::string_view name() const override { return "topology"; }
  std::string_view summary() const override {
    return "what the machine looks like, where ranks live on it, and how they wait";
  }
  std::string_view example() const override {
    return "unisono topology -n 4\n"
           "mpirun -n 4 unisono topology --json -";
  }
  void declare(Flags& flags) override {
    flags.text("-n,--ranks", ranks_, "N",
               "ranks to start on this host (2); under a launcher, what it started");
    flags.text("--ranks-as", ranks_as_, "HOW", "processes, or threads of one process");
    flags.text("--json", json_, "FILE",
               "write one object instead of the tables; - for standard output");
  }

  Result<int> run() override {
    if (!ranks_.empty()) {
      const auto ranks = parse_count("--ranks", ranks_, 1, kMostRanks);
      if (!ranks.ok()) return ranks.status();
      asked_ = *ranks;
    }
    if (ranks_as_ != "processes" && ranks_as_ != "threads")
      return bad_value("--ranks-as", ranks_as_, "processes or threads");
    const JobOptions job{name(), asked_.value_or(kDefaultRanks), ranks_as_ == "threads", {}};
    return run_job(job, [this](Communicator& communicator) { return show(communicator); });
  }

 private:
  Status show(Communicator& communicator) const {
    if (const int size = communicator.size(); asked_.value_or(size) != size)
      return invalid_argument(
          fmt::format("--ranks {}: expected {}, which the launcher started", *asked_, size));
    const auto topology = gather_topology(communicator);
    if (!topology.ok()) return topology.status();
    if (communicator.rank() != 0) return Status();
    auto output = Output::open(json_.empty() ? "-" : json_);
    if (!output.ok()) return output.status();
    if (!json_.empty()) return output->write(topology->dump() + "\n");
    const Json &hosts = (*topology)["hosts"], &all_ranks = (*topology)["ranks"];
    return output->write(machines_table(hosts) + "\n" + ranks_table(all_ranks) + "\n" +
                         waiting_table(hosts));
  }

  std::string ranks_;
  std::optional<int> asked_;
  std::string ranks_as_ = "processes";
  std::string json_;
};

}  // namespace

std::unique_ptr<Command> make_topology_command() {
  return std::make_unique<ShowTopology>();
}

}  // namespace unisono
