// SPDX-License-Identifier: Apache-2.0
#include "tools/world.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "communicator/round.h"
#include "topology/host.h"

namespace unisono {

Result<World> survey(Communicator& communicator) {
  const std::string mine = host_identity();
  const auto all = communicator.all_gather(mine);
  if (!all.ok()) return all.status();
  World world;
  world.local_ranks = static_cast<int>(std::ranges::count(*all, mine));
  std::map<std::string, int> hosts;
  for (const std::string& host : *all)
    world.host_of.push_back(hosts.try_emplace(host, static_cast<int>(hosts.size())).first->second);
  world.hosts = static_cast<int>(hosts.size());
  return world;
}

Status agree(Communicator& communicator, const Status& mine, bool* reached) {
  if (reached != nullptr) *reached = false;
  const auto all = report_to_all([&](std::string_view bytes) { return communicator.all_gather(bytes); },
                                 {"asks how all are", mine});
  if (!all.ok()) return all.status();
  if (reached != nullptr) *reached = true;
  const int failed = first_failed(*all);
  return failed < 0 ? Status() : (*all)[static_cast<size_t>(failed)].status;
}

}  // namespace unisono
