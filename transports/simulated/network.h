// SPDX-License-Identifier: Apache-2.0
// simulated: a transport for tests, inside one process, with seeded delays and failures on demand.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/transport.h"

namespace unisono {

struct SimulatedOptions {
  uint64_t seed = 1;
  // A send ends when its receive has been posted and met it; else at once, with a copy (eager).
  bool rendezvous = true;
  // A message can be received after 0…max_delay progress() calls of its receiver, so messages of
  // different keys overtake each other. Failures are noticed after as many calls of the peer.
  int max_delay = 8;
};

// What the ranks of one communicator share. Thread-safe; with one thread that progresses the ranks
// in turn, the same seed gives the same run. Its transports keep it alive.
class SimulatedNetwork {
 public:
  static std::shared_ptr<SimulatedNetwork> create(int size, const SimulatedOptions& options);
  virtual ~SimulatedNetwork() = default;

  virtual std::unique_ptr<Transport> transport(int rank) = 0;

  // From now on that rank's progress() does nothing, and nobody is told.
  virtual void stop(int rank) = 0;
  // The same, and its peers notice: their posts end with kPeerFailed.
  virtual void kill(int rank) = 0;
  // The next message of that number from one rank to another arrives one byte longer.
  virtual void corrupt_length(int from, int to, uint32_t message) = 0;
};

}  // namespace unisono
