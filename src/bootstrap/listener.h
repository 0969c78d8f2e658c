// SPDX-License-Identifier: Apache-2.0
// Where rank 0 may listen: the interface and port range of the settings against this host's
// addresses.
#pragma once

#include <string>
#include <vector>

#include "base/settings.h"
#include "base/status.h"
#include "bootstrap/socket.h"

namespace unisono {

// This host's addresses (port 0) on the interface or in the subnet of kInterface, IPv4 first; all
// but link-local ones if it is empty, loopback only if there is nothing else. Never empty. Errors:
// kInvalidArgument naming the setting and what there is instead.
Result<std::vector<Endpoint>> interface_addresses(const Settings& settings);

// Listeners for ranks that will connect to `host`:`port`. With kInterface: on its addresses. Else
// on `host` itself where that is a literal address of this host, and on every address otherwise (a
// name may mean something else to rank 0 than to the others).
Result<std::vector<Socket>> listen_for(const std::string& host, uint16_t port,
                                       const Settings& settings);

// A listener on the first free port of kPortRange, which goes into `where`.
Result<Socket> listen_in_range(Endpoint& where, const Settings& settings);

}  // namespace unisono
