// SPDX-License-Identifier: Apache-2.0
#include "topology/machine.h"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

namespace unisono {
namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

std::vector<hwloc_obj_t> objects(const Topology& topology, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> found;
  for (hwloc_obj_t next = nullptr;
       (next = hwloc_get_next_obj_by_type(topology.get(), type, next)) != nullptr;)
    found.push_back(next);
  return found;
}

Core read_core(const Topology& topology, hwloc_obj_t object) {
  Core core;
  const hwloc_obj_t package =
      hwloc_get_ancestor_obj_by_type(topology.get(), HWLOC_OBJ_PACKAGE, object);
  if (package != nullptr) core.package = static_cast<int>(package->logical_index);
  core.numa_node = std::max(0, hwloc_bitmap_first(object->nodeset));
  for (int cpu = -1; (cpu = hwloc_bitmap_next(object->cpuset, cpu)) >= 0;) core.cpus.push_back(cpu);
  return core;
}

std::vector<Cache> read_caches(const Topology& topology) {
  std::vector<Cache> caches;
  for (int level = 1; level <= 5; ++level) {
    std::map<uint64_t, int> sizes;
    for (const hwloc_obj_t cache :
         objects(topology, static_cast<hwloc_obj_type_t>(HWLOC_OBJ_L1CACHE + level - 1)))
      ++sizes[cache->attr->cache.size];
    for (const auto& [bytes, count] : sizes) caches.push_back({level, bytes, count});
  }
  return caches;
}

Machine read(const Topology& topology) {
  Machine machine;
  const auto packages = objects(topology, HWLOC_OBJ_PACKAGE);
  if (!packages.empty())
    if (const char* model = hwloc_obj_get_info_by_name(packages.front(), "CPUModel"))
      machine.cpu_model = model;
  // A machine that does not tell has one.
  machine.packages = std::max(1, static_cast<int>(packages.size()));
  machine.numa_nodes = static_cast<int>(objects(topology, HWLOC_OBJ_NUMANODE).size());
  machine.memory_bytes = hwloc_get_root_obj(topology.get())->total_memory;
  machine.caches = read_caches(topology);
  auto cores = objects(topology, HWLOC_OBJ_CORE);
  if (cores.empty()) cores = objects(topology, HWLOC_OBJ_PU);
  for (const hwloc_obj_t core : cores) machine.cores.push_back(read_core(topology, core));
  return machine;
}

Result<Machine> discover(const char* description) {
  hwloc_topology* raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return system_error("hwloc");
  const Topology topology(raw);
  // Or hwloc would visit every CPU with the caller's thread.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING);
  if (description != nullptr && hwloc_topology_set_synthetic(raw, description) != 0)
    return invalid_argument(fmt::format(
        "'{}': expected a machine as hwloc describes it, like 'pack:2 core:4 pu:2'", description));
  if (hwloc_topology_load(raw) != 0) return system_error("hwloc cannot read this machine");
  return read(topology);
}

bool overlap(std::span<const int> some, std::span<const int> others) {
  return std::ranges::any_of(
      some, [&](int one) { return std::ranges::find(others, one) != others.end(); });
}

const Core& core_at(const Machine& machine, int core) {
  return machine.cores[static_cast<size_t>(core)];
}

// The finest parts of the machine that are no more than the ranks: cores by NUMA node, by package,
// or in one piece.
std::vector<std::vector<int>> parts_for(const Machine& machine, const std::vector<int>& cores,
                                        int ranks) {
  for (const auto& place : {&Core::numa_node, &Core::package}) {
    std::map<int, std::vector<int>> parts;
    for (const int core : cores) parts[core_at(machine, core).*place].push_back(core);
    if (static_cast<int>(parts.size()) > ranks) continue;
    std::vector<std::vector<int>> result;
    for (auto& [number, part] : parts) result.push_back(std::move(part));
    return result;
  }
  return {cores};
}

}  // namespace

Result<Machine> this_machine() {
  return discover(nullptr);
}

Result<Machine> described_machine(const std::string& description) {
  return discover(description.c_str());
}

std::vector<int> cores_of(const Machine& machine, std::span<const int> cpus) {
  std::vector<int> cores;
  for (size_t core = 0; core < machine.cores.size(); ++core)
    if (overlap(machine.cores[core].cpus, cpus)) cores.push_back(static_cast<int>(core));
  return cores;
}

std::vector<int> numa_nodes_of(const Machine& machine, std::span<const int> cores) {
  std::set<int> nodes;
  for (const int core : cores) nodes.insert(core_at(machine, core).numa_node);
  return {nodes.begin(), nodes.end()};
}

std::vector<int> cpus_of(const Machine& machine, std::span<const int> cores,
                         std::span<const int> allowed) {
  std::vector<int> cpus;
  for (const int core : cores)
    for (const int cpu : core_at(machine, core).cpus)
      if (std::ranges::find(allowed, cpu) != allowed.end()) cpus.push_back(cpu);
  std::ranges::sort(cpus);
  return cpus;
}

std::vector<std::vector<int>> share_cores(const Machine& machine, std::span<const int> allowed,
                                          int ranks) {
  const std::vector<int> cores = cores_of(machine, allowed);
  const auto all = static_cast<int>(cores.size());
  if (ranks < 1 || ranks > all) return {};
  std::vector<std::vector<int>> shares;
  int before = 0;  // cores in earlier parts
  for (const std::vector<int>& part : parts_for(machine, cores, ranks)) {
    const auto size = static_cast<int>(part.size());
    // A part has its portion of the ranks; rounded so that all are placed, and none without a core.
    const auto first_at = [&](int core) { return (core * ranks + all - 1) / all; };
    const int here = first_at(before + size) - first_at(before);
    for (int i = 0; i < here; ++i)
      shares.emplace_back(part.begin() + i * size / here, part.begin() + (i + 1) * size / here);
    before += size;
  }
  return shares;
}

std::vector<std::vector<int>> share_cpus(const Machine& machine, std::span<const int> allowed,
                                         int ranks) {
  std::vector<std::vector<int>> shares;
  for (const std::vector<int>& cores : share_cores(machine, allowed, ranks))
    shares.push_back(cpus_of(machine, cores, allowed));
  const auto all = static_cast<int>(allowed.size());
  if (!shares.empty() || all == 0 || (ranks > all && ranks % all != 0)) return shares;
  for (int rank = 0; rank < ranks; ++rank) {
    const int first = rank * all / ranks, end = std::max((rank + 1) * all / ranks, first + 1);
    shares.emplace_back(allowed.begin() + first, allowed.begin() + end);
  }
  return shares;
}

}  // namespace unisono
