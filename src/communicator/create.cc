// SPDX-License-Identifier: Apache-2.0
// How a communicator comes to be: settings, agreement, connections, control.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"
#include "communicator/binding.h"
#include "communicator/parts.h"

namespace unisono {
namespace {

Status check_servers(const CommunicatorOptions& options, int size) {
  int last = -1;
  for (const int server : options.servers) {
    if (server <= last || server >= size)
      return invalid_argument(fmt::format("servers: expected ascending ranks from 0 to {}, got {}",
                                          size - 1, fmt::join(options.servers, ",")));
    last = server;
  }
  if (static_cast<int>(options.servers.size()) == size)
    return invalid_argument(
        fmt::format("servers: all {} ranks are servers: expected one that contributes", size));
  return Status();
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(std::unique_ptr<Bootstrap> bootstrap,
                                                           const Settings& settings,
                                                           const CommunicatorOptions& options) {
  const Deadline deadline = Deadline::after(settings.duration(Setting::kTimeout));
  const Log log(settings, bootstrap->rank());
  UNISONO_RETURN_IF_ERROR(check_servers(options, bootstrap->size()));
  auto policy = read_policy(settings);
  if (!policy.ok()) return policy.status();
  auto agreement = agree(*bootstrap, settings, options, deadline);
  if (!agreement.ok()) return agreement.status();
  // Before memory is touched, so that it lies near the core.
  UNISONO_RETURN_IF_ERROR(bind_to_core(*agreement, settings, log));
  auto connections = connect_ranks(*bootstrap, settings, log, deadline);
  if (!connections.ok()) return connections.status();
  auto calls = std::make_unique<CallLog>(bootstrap->rank());
  auto control = bootstrap->turn_over(
      {.compare = CallLog::compare, .phase = [log = calls.get()] { return log->phase(); }}, settings, deadline);
  if (!control.ok()) return control.status();
  return assemble({.bootstrap = std::move(bootstrap),
                   .settings = settings,
                   .servers = options.servers,
                   .policy = policy.take(),
                   .agreement = agreement.take(),
                   .connections = connections.take(),
                   .log = std::move(calls),
                   .control = control.take()});
}

}  // namespace unisono
