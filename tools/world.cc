// SPDX-License-Identifier: Apache-2.0
#include "tools/world.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/pack.h"
#include "base/text.h"
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
  const std::string fields[] = {std::to_string(static_cast<int>(mine.code())),
                                std::string(mine.message())};
  const auto all = communicator.all_gather(pack(fields));
  if (!all.ok()) return all.status();
  std::vector<Status> statuses;
  for (const std::string& one : *all) {
    const auto status = unpack(one, 2);
    const auto code = status ? parse_integer((*status)[0]) : std::nullopt;
    if (!code) return Status(StatusCode::kInternal, "a rank sent a status that cannot be read");
    statuses.emplace_back(static_cast<StatusCode>(*code), (*status)[1]);
  }
  if (reached != nullptr) *reached = true;
  for (Status& status : statuses)
    if (!status.ok()) return std::move(status);
  return Status();
}

}  // namespace unisono
