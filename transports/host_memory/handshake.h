// SPDX-License-Identifier: Apache-2.0
// Handshake: how processes of one host hand each other their regions, over abstract Unix sockets.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "transports/host_memory/address.h"
#include "transports/host_memory/region.h"

namespace unisono::host_memory {

// kTimeout, naming the ranks.
Status no_connection(std::vector<int> ranks);
// kPeerFailed: that rank has said so itself.
Status cannot_share(int rank);

// A rank listens from before its address is known to anyone, so connecting needs no order.
class Handshake {
 public:
  static Result<Handshake> listen(const Address& mine);

  // Gives `region` to each of `peers` (rank → address) and gets theirs. Who has another user or no
  // job token, sends anything else, or sends nothing, is dropped or ignored, and the handshake goes
  // on. Errors: kTimeout naming the missing ranks; kPeerFailed naming one that is gone or cannot
  // share memory; kSystem.
  Result<std::map<int, std::unique_ptr<PeerRegion>>> exchange(int rank,
                                                              const std::string& job_token,
                                                              const Region& region,
                                                              const std::map<int, Address>& peers,
                                                              Deadline deadline);

  // Tells `peers` that no region will come from this rank, so that none waits for it.
  void refuse(int rank, const std::string& job_token, const std::map<int, Address>& peers,
              Deadline deadline);

 private:
  explicit Handshake(Descriptor listener) : listener_(std::move(listener)) {}
  Descriptor listener_;
};

}  // namespace unisono::host_memory
