// SPDX-License-Identifier: Apache-2.0
// The machine as hwloc sees it, as a plain value; and how ranks share its cores.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace unisono {

struct Core {
  int package = 0;        // numbered from 0
  int numa_node = 0;      // the kernel's number
  std::vector<int> cpus;  // its hardware threads, by the kernel's numbers, ascending
};

struct Cache {
  int level = 0;  // of data
  uint64_t bytes = 0;
  int count = 0;  // of this size
};

// What the cgroup lets this process see. Cores are numbered by their place here, neighbours
// together.
struct Machine {
  std::string cpu_model;  // may be empty
  int packages = 0, numa_nodes = 0;
  uint64_t memory_bytes = 0;
  std::vector<Cache> caches;
  std::vector<Core> cores;
};

// Takes milliseconds; changes no binding, not even for a moment. kSystem where hwloc finds nothing.
Result<Machine> this_machine();
// From hwloc's synthetic description, as "pack:2 numa:1 core:4 pu:2". kInvalidArgument for another
// text.
Result<Machine> described_machine(const std::string& description);

// Numbers of the cores that have one of these CPUs, and of the NUMA nodes of these cores;
// ascending.
std::vector<int> cores_of(const Machine& machine, std::span<const int> cpus);
std::vector<int> numa_nodes_of(const Machine& machine, std::span<const int> cores);
// Those of `allowed` that belong to these cores, ascending.
std::vector<int> cpus_of(const Machine& machine, std::span<const int> cores,
                         std::span<const int> allowed);

// For each rank its cores, at least one, of those with an allowed CPU. No two ranks share one.
// Where there are no fewer ranks than NUMA nodes (or packages), each node has its portion of the
// ranks, which share its cores evenly. Empty: fewer cores than ranks.
std::vector<std::vector<int>> share_cores(const Machine& machine, std::span<const int> allowed,
                                          int ranks);
// For each rank its CPUs: of its cores; or with fewer cores than ranks an equal share; or with fewer CPUs than ranks
// one CPU, which as many ranks share as any other. Empty: that does not come out even.
std::vector<std::vector<int>> share_cpus(const Machine& machine, std::span<const int> allowed,
                                         int ranks);

}  // namespace unisono
