// SPDX-License-Identifier: Apache-2.0
#include "topology/host.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/text.h"

namespace unisono {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Folders of this process's cgroup (v2) and of those above it: a limit holds for a group and all below.
std::vector<std::string> cgroups() {
  std::vector<std::string> folders;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::string path = line.substr(3); !path.empty(); path.resize(path.rfind('/')))
      folders.push_back("/sys/fs/cgroup" + (path == "/" ? "" : path));
  }
  if (folders.empty() || folders.back() != "/sys/fs/cgroup") folders.emplace_back("/sys/fs/cgroup");
  return folders;
}

}  // namespace

std::string host_identity() {
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  if (!boot.empty()) return boot;
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::vector<int> allowed_cpus() {
  // The kernel may know more CPUs than cpu_set_t holds.
  for (int capacity = CPU_SETSIZE; capacity <= (1 << 20); capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(capacity));
    const size_t size = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    std::vector<int> cpus;
    if (sched_getaffinity(0, size, set) == 0) {
      for (int cpu = 0; cpu < capacity; ++cpu)
        if (CPU_ISSET_S(static_cast<size_t>(cpu), size, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (!cpus.empty()) return cpus;
  }
  return {0};
}

Status bind_thread(std::span<const int> cpus) {
  const auto capacity = static_cast<size_t>(*std::ranges::max_element(cpus)) + 1;
  cpu_set_t* set = CPU_ALLOC(capacity);
  const size_t size = CPU_ALLOC_SIZE(capacity);
  CPU_ZERO_S(size, set);
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), size, set);
  const int error = sched_setaffinity(0, size, set);
  CPU_FREE(set);
  return error == 0 ? Status() : system_error(fmt::format("cannot bind to CPU {}", fmt::join(cpus, ", ")));
}

double cpu_quota() {
  double quota = 1e9;
  for (const std::string& group : cgroups()) {
    const std::string line = first_line(group + "/cpu.max");
    const auto parts = split(line, ' ');
    const auto limit = parse_integer(parts[0]);
    const auto period = parts.size() == 2 ? parse_integer(parts[1]) : std::nullopt;
    if (limit && period && *period > 0)
      quota = std::min(quota, static_cast<double>(*limit) / static_cast<double>(*period));
  }
  return quota;
}

uint64_t available_memory() {
  uint64_t available = UINT64_MAX;
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (uint64_t kib = 0; file >> name >> kib; std::getline(file, unit))
    if (name == "MemAvailable:") available = kib * 1024;
  for (const std::string& group : cgroups()) {
    const auto limit = parse_integer(first_line(group + "/memory.max"));  // "max" is no number
    const auto used = parse_integer(first_line(group + "/memory.current"));
    if (!limit || !used) continue;
    available = std::min(available, static_cast<uint64_t>(std::max<int64_t>(*limit - *used, 0)));
  }
  return available;
}

int usable_cpus(std::span<const std::vector<int>> masks, double quota) {
  std::set<int> cpus;
  for (const std::vector<int>& mask : masks) cpus.insert(mask.begin(), mask.end());
  return std::max(1, static_cast<int>(std::min(static_cast<double>(cpus.size()), quota)));
}

}  // namespace unisono
