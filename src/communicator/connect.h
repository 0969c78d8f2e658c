// SPDX-License-Identifier: Apache-2.0
// connect_ranks: gives every pair of ranks the best transport that reaches, the same seen from both
// sides.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/status.h"
#include "bootstrap/bootstrap.h"
#include "transport/transport.h"

namespace unisono {

struct Connections {
  std::vector<std::unique_ptr<Transport>> transports;  // those in use
  std::vector<std::string> names;                      // of `transports`
  std::vector<Channel*> channels;                      // by rank; mine is null
  bool shared_memory = true;  // every rank reaches every other through mapped memory; agreed by all
};

// Collective. Tries the table of transports from the best one down; a transport that fails on any
// rank is dropped on all, with the reason logged. A transport forced by the settings is the only
// candidate. Errors name the peer that nothing reaches, and why.
Result<Connections> connect_ranks(Bootstrap& bootstrap, const Settings& settings, const Log& log,
                                  Deadline deadline);

}  // namespace unisono
