// SPDX-License-Identifier: Apache-2.0
// What Communicator::create() brings together, and assemble(), which makes a communicator of it.
#pragma once

#include <memory>

#include "base/settings.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/control.h"
#include "communicator/agreement.h"
#include "communicator/communicator.h"
#include "communicator/connect.h"
#include "communicator/planner.h"
#include "execute/call_log.h"

namespace unisono {

struct CommunicatorParts {
  std::unique_ptr<Bootstrap> bootstrap;
  Settings settings;
  std::vector<int> servers;
  Policy policy;
  Agreement agreement;
  Connections connections;
  std::unique_ptr<CallLog> log;
  std::unique_ptr<Control> control;
};

std::unique_ptr<Communicator> assemble(CommunicatorParts parts);

}  // namespace unisono
