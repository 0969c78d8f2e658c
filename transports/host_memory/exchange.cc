// SPDX-License-Identifier: Apache-2.0
#include "transports/host_memory/exchange.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace unisono::host_memory {
namespace {

using PeerRegions = std::map<int, std::unique_ptr<PeerRegion>>;

// Threads find each other's regions in this process.
Status take_regions_of_threads(const Identity& mine, const std::map<int, Address>& peers,
                               Deadline deadline, PeerRegions& found) {
  std::vector<uint64_t> ids;
  for (const auto& [peer, address] : peers) ids.push_back(address.id);
  auto regions = await_regions(ids, deadline);
  std::vector<int> missing;
  Status refusal;
  size_t next = 0;
  for (const auto& [peer, address] : peers) {
    auto region = std::make_unique<PeerRegion>();
    region->same_process = std::move(regions[next++]);
    if (region->same_process == nullptr) {
      missing.push_back(peer);
    } else if (region->data() == nullptr) {
      refusal = cannot_share(peer);
    } else {
      region->index = region->same_process->index_of(mine.rank);
      found[peer] = std::move(region);
    }
  }
  if (!missing.empty()) return no_connection(missing);
  // Even where all is lost: whoever has not come yet would wait for what is withdrawn.
  // Whoever has not taken a share of my region by now has taken none of its peers', or is slow.
  if (!await_takers(mine.address.id, static_cast<int>(peers.size()), deadline))
    return Status(StatusCode::kTimeout, "host_memory: a rank did not connect before the deadline");
  return refusal;
}

}  // namespace

Result<PeerRegions> exchange_regions(const Identity& mine, Handshake& handshake,
                                     const std::shared_ptr<Region>& region,
                                     std::span<const PeerAddress> peers, Deadline deadline) {
  std::map<int, Address> threads, processes;
  for (const PeerAddress& each : peers) {
    const Result<Address> peer = Address::parse(each.address);
    if (!peer.ok()) return peer.status().in(fmt::format("rank {}", each.rank));
    UNISONO_RETURN_IF_ERROR(mine.address.reaches(*peer).in(fmt::format("rank {}", each.rank)));
    (mine.address.same_process(*peer) ? threads : processes)[each.rank] = *peer;
  }
  // First: threads need not wait for my processes.
  announce(mine.address.id, region != nullptr ? region : std::make_shared<Region>());
  PeerRegions found;
  Status status;
  if (region != nullptr) {
    auto exchanged =
        handshake.exchange(mine.rank, mine.job_token, *region, processes, deadline);
    status = exchanged.status();
    if (exchanged.ok()) found = exchanged.take();
  }
  if (region == nullptr || !status.ok())
    handshake.refuse(mine.rank, mine.job_token, processes, deadline);
  const Status of_threads = take_regions_of_threads(mine, threads, deadline, found);
  withdraw(mine.address.id);
  UNISONO_RETURN_IF_ERROR(status);
  UNISONO_RETURN_IF_ERROR(of_threads);
  if (region != nullptr) region->close_file();
  return found;
}

}  // namespace unisono::host_memory
