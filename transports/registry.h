// SPDX-License-Identifier: Apache-2.0
// The table of transports, best first: auto takes the first that reaches a peer.
#pragma once

#include <span>

#include "transport/transport.h"

namespace unisono {

std::span<const TransportRow> transports();
const TransportRow* find_transport(std::string_view name);  // null when there is none of that name

}  // namespace unisono
