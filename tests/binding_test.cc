// SPDX-License-Identifier: Apache-2.0
// The setting that binds ranks to cores: whom it binds, where, and whom not.
#include "communicator/binding.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/ranks.h"
#include "topology/host.h"
#include "topology/machine.h"

namespace unisono {
namespace {

testing::RankOptions binding(const char* how) {
  testing::RankOptions options;
  EXPECT_TRUE(options.settings.set("UNISONO_BIND", how, "options").ok());
  return options;
}

// What UNISONO_BIND=core leaves to each of so many ranks of this host.
std::vector<std::vector<int>> bound_cpus(int ranks) {
  const auto here = this_machine();
  const std::vector<int> allowed = allowed_cpus();
  std::vector<std::vector<int>> cpus(static_cast<size_t>(ranks), allowed);
  const auto shares = share_cores(*here, allowed, ranks);
  for (size_t rank = 0; rank < shares.size(); ++rank)
    cpus[rank] = cpus_of(*here, std::span(shares[rank]).first(1), allowed);
  return cpus;
}

TEST(Binding, RanksAreBoundOnlyWhereTheyAsk) {
  for (const int ranks : {1, 2, 3}) {
    for (const char* how : {"none", "core"}) {
      SCOPED_TRACE(fmt::format("{} ranks, {}", ranks, how));
      const auto bound = bound_cpus(ranks);
      const std::vector<int> before = allowed_cpus();
      const auto is_right = [&](Communicator& communicator) {
        const auto mine = static_cast<size_t>(communicator.rank());
        return allowed_cpus() == (how == std::string_view("core") ? bound[mine] : before);
      };
      testing::run_threads(
          ranks, [&](Communicator& communicator) { EXPECT_TRUE(is_right(communicator)); },
          binding(how));
      EXPECT_EQ(allowed_cpus(), before);
      const auto ended = testing::run_processes(
          ranks, [&](Communicator& communicator) { return is_right(communicator) ? 0 : 1; },
          binding(how));
      EXPECT_THAT(ended, ::testing::Each(0));
    }
  }
}

TEST(Binding, WhatALauncherBoundStays) {
  const testing::RankOptions options = binding("core");
  const Log log(options.settings, 0);
  const auto cpus_after = [&](bool same_cpus) {
    Agreement agreement;
    agreement.same_cpus = same_cpus;
    std::vector<int> cpus;
    std::jthread([&] {
      EXPECT_TRUE(bind_to_core(agreement, options.settings, log).ok());
      cpus = allowed_cpus();
    }).join();
    return cpus;
  };
  EXPECT_EQ(cpus_after(false), allowed_cpus());
  EXPECT_EQ(cpus_after(true), bound_cpus(1)[0]);
}

}  // namespace
}  // namespace unisono
