// SPDX-License-Identifier: Apache-2.0
// The star: rank 0 listens, the others connect and stay connected; everything goes through rank 0.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/log.h"
#include "base/status.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/socket.h"

namespace unisono {

struct StarOptions {
  int rank = 0;
  int size = 1;
  std::string token;                 // kTokenBytes
  std::vector<Socket> listeners;     // rank 0: where the others come
  std::vector<Endpoint> rendezvous;  // the others: where rank 0 may be, tried side by side
  Log log;
  std::chrono::nanoseconds report_after = std::chrono::seconds(5);  // then says who is missing
  std::chrono::nanoseconds stranger_time =
      std::chrono::seconds(10);  // to become one of us, or be dropped
};

// Collective over all ranks of the job; returns when everybody is connected, with the listeners
// closed. Whoever does not know the token, or keeps silent, is dropped and holds nobody up. A rank
// that knows it but does not fit (another size, a rank that is there already) gets
// kInvalidArgument, and the job goes on. Errors: kTimeout naming the missing ranks, on every rank
// that rank 0 can reach; kPeerFailed naming a rank that left.
Result<std::unique_ptr<Bootstrap>> join_star(StarOptions options, Deadline deadline);

// The two kinds of rank behind it.
Result<std::unique_ptr<Bootstrap>> join_as_hub(StarOptions options, Deadline deadline);
Result<std::unique_ptr<Bootstrap>> join_as_member(StarOptions options, Deadline deadline);

}  // namespace unisono
