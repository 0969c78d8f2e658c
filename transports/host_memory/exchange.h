// SPDX-License-Identifier: Apache-2.0
// exchange_regions: every rank of a host gets the regions of all others, threads and processes
// alike.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "transports/host_memory/handshake.h"

namespace unisono::host_memory {

struct Identity {
  int rank;
  std::string job_token;
  Address address;  // that the handshake listens at
};

// Collective over me and `peers`. No region: tells them that none will come from me.
// Errors: kUnsupported for a peer that is not reached; those of Handshake.
Result<std::map<int, std::unique_ptr<PeerRegion>>> exchange_regions(
    const Identity& mine, Handshake& handshake, const std::shared_ptr<Region>& region,
    std::span<const PeerAddress> peers, Deadline deadline);

}  // namespace unisono::host_memory
