// SPDX-License-Identifier: Apache-2.0
// Machines as values, and how ranks share their cores.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "topology/host.h"
#include "topology/machine.h"

namespace unisono {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Machine machine(const std::string& description) {
  auto described = described_machine(description);
  EXPECT_TRUE(described.ok()) << described.status().message();
  return described.ok() ? described.take() : Machine();
}

std::vector<int> all_cpus(const Machine& machine) {
  std::vector<int> cpus;
  for (const Core& core : machine.cores)
    cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  return cpus;
}

std::vector<int> from_to(int first, int last) {
  std::vector<int> numbers(static_cast<size_t>(last - first + 1));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

// Numbered as Linux does on x86: first threads of all cores, then their siblings.
constexpr const char* kTwoPackages =
    "pack:2 [numa(memory=1GiB)] l3:1(size=33554432) l2:4(size=2097152) core:1 "
    "pu:2(indexes=0,8,1,9,2,10,3,11,4,12,5,13,6,14,7,15)";

TEST(Topology, ReadsAMachine) {
  const Machine two = machine(kTwoPackages);
  EXPECT_EQ(two.packages, 2);
  EXPECT_EQ(two.numa_nodes, 2);
  EXPECT_EQ(two.memory_bytes, 2u << 30);
  ASSERT_EQ(two.cores.size(), 8u);
  EXPECT_THAT(two.cores[5].cpus, ElementsAre(5, 13));
  EXPECT_EQ(two.cores[3].package, 0);
  EXPECT_EQ(two.cores[4].package, 1);
  EXPECT_EQ(two.cores[4].numa_node, 1);
  ASSERT_EQ(two.caches.size(), 2u);
  EXPECT_EQ(two.caches[0].level, 2);
  EXPECT_EQ(two.caches[0].bytes, 2u << 20);
  EXPECT_EQ(two.caches[0].count, 8);
  EXPECT_EQ(two.caches[1].count, 2);

  const std::vector<int> cpus = {3, 13};
  EXPECT_THAT(cores_of(two, cpus), ElementsAre(3, 5));
  EXPECT_THAT(numa_nodes_of(two, cores_of(two, cpus)), ElementsAre(0, 1));
  EXPECT_THAT(cpus_of(two, from_to(3, 5), cpus), ElementsAre(3, 13));

  const auto nonsense = described_machine("two packages");
  EXPECT_EQ(nonsense.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(nonsense.status().message()), HasSubstr("expected a machine"));
}

TEST(Topology, ThisMachineHasTheCpusThatWeMayUse) {
  const std::vector<int> before = allowed_cpus();
  const auto here = this_machine();
  ASSERT_TRUE(here.ok()) << here.status().message();
  EXPECT_THAT(cpus_of(*here, from_to(0, static_cast<int>(here->cores.size()) - 1), before),
              ::testing::ContainerEq(before));
  EXPECT_GE(here->packages, 1);
  EXPECT_GE(here->numa_nodes, 1);
  EXPECT_EQ(allowed_cpus(), before);
}

TEST(Topology, RanksShareCoresOverPackages) {
  const Machine two = machine(kTwoPackages);
  const std::vector<int> all = all_cpus(two);
  EXPECT_THAT(share_cores(two, all, 1), ElementsAre(from_to(0, 7)));
  EXPECT_THAT(share_cores(two, all, 2), ElementsAre(from_to(0, 3), from_to(4, 7)));
  EXPECT_THAT(share_cores(two, all, 3), ElementsAre(from_to(0, 1), from_to(2, 3), from_to(4, 7)));
  EXPECT_THAT(share_cores(two, all, 9), IsEmpty());
  EXPECT_THAT(share_cores(two, all, 0), IsEmpty());
  // One thread of a core is enough; a core outside the mask is nobody's.
  EXPECT_THAT(share_cores(two, std::vector<int>{1, 10, 12}, 3),
              ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(4)));
  // More NUMA nodes than ranks: by package.
  EXPECT_THAT(share_cores(machine("pack:2 numa:2 core:3 pu:1"), from_to(0, 11), 2),
              ElementsAre(from_to(0, 5), from_to(6, 11)));
  EXPECT_THAT(share_cores(machine("pack:2 numa:2 core:3 pu:1"), from_to(0, 11), 4)[1],
              ElementsAre(3, 4, 5));
}

// What every share must be, whatever the machine, the mask and the number of ranks.
TEST(Topology, SharesAreApartAndEven) {
  for (const char* description : {"pu:1", "core:5 pu:1", "pack:2 core:1 pu:2", "pack:2 core:8 pu:2",
                                  "pack:3 core:5 pu:1", "pack:2 numa:2 core:3 pu:2"}) {
    const Machine some = machine(description);
    for (const size_t left_out : {size_t{0}, size_t{1}, size_t{4}}) {
      std::vector<int> allowed = all_cpus(some);
      if (left_out >= allowed.size()) continue;
      allowed.erase(allowed.begin(), allowed.begin() + static_cast<ptrdiff_t>(left_out));
      const auto cores = static_cast<int>(cores_of(some, allowed).size());
      for (int ranks = 1; ranks <= cores; ++ranks) {
        SCOPED_TRACE(fmt::format("{}, {} CPUs left out, {} ranks", description, left_out, ranks));
        const auto shares = share_cores(some, allowed, ranks);
        ASSERT_EQ(std::ssize(shares), ranks);
        std::set<int> taken;
        std::map<int, int> ranks_in, cores_in;
        for (const int core : cores_of(some, allowed))
          ++cores_in[some.cores[static_cast<size_t>(core)].package];
        for (const auto& share : shares) {
          ASSERT_FALSE(share.empty());
          ++ranks_in[some.cores[static_cast<size_t>(share.front())].package];
          for (const int core : share) {
            EXPECT_TRUE(taken.insert(core).second) << core;
            EXPECT_FALSE(cpus_of(some, std::span(&core, 1), allowed).empty()) << core;
          }
        }
        for (const auto& [package, here] : cores_in)
          EXPECT_LE(std::abs(ranks_in[package] - static_cast<double>(ranks * here) / cores), 1)
              << package;
      }
    }
  }
}

TEST(Topology, CpusAreSharedWhereCoresAreTooFew) {
  const Machine two = machine("pack:2 core:1 pu:2");
  const std::vector<int> all = all_cpus(two);
  EXPECT_THAT(share_cpus(two, all, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(share_cpus(two, all, 3),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2, 3)));
  EXPECT_THAT(share_cpus(two, all, 5), IsEmpty());
  EXPECT_THAT(share_cpus(two, std::vector{1, 3}, 4),
              ElementsAre(ElementsAre(1), ElementsAre(1), ElementsAre(3), ElementsAre(3)));
  EXPECT_THAT(share_cpus(Machine(), {}, 2), IsEmpty());
  EXPECT_THAT(share_cpus(Machine(), all, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  // Siblings stay together where each rank can have a core.
  EXPECT_THAT(share_cpus(machine(kTwoPackages), from_to(0, 15), 8)[5], ElementsAre(5, 13));
}

}  // namespace
}  // namespace unisono
