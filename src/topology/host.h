// SPDX-License-Identifier: Apache-2.0
// What a rank knows of the host that it runs on: which one it is, and which CPUs it may really use.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace unisono {

// Equal for two processes if and only if one kernel runs both. Not the hostname: containers share
// it.
std::string host_identity();

// CPUs of this thread's affinity mask, ascending. Never empty.
std::vector<int> allowed_cpus();

// Lets the calling thread, and those that it starts, run on these CPUs only.
Status bind_thread(std::span<const int> cpus);

// What the cgroup's quota grants, in CPUs.
double cpu_quota();
constexpr double kNoQuota = 1e9;

// Bytes that the host can still give out without swapping, and that the cgroup's limit leaves.
uint64_t available_memory();

// CPUs that ranks with these masks can use together: the size of their union, at most `quota`.
int usable_cpus(std::span<const std::vector<int>> masks, double quota);

}  // namespace unisono
