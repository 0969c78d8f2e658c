// SPDX-License-Identifier: Apache-2.0
// Connections that do not belong to the job, and the ports that they can be made to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bootstrap/socket.h"

namespace unisono::testing {

// Connected and, if that says something, with it said.
Socket stranger(const Endpoint& where, const std::string& says);

// What a stranger may say who knows nothing of us; nothing at all, too.
std::vector<std::string> nonsense();

// What the other side sends until it hangs up.
std::string hear_out(const Socket& socket, int timeout_ms);

// TCP ports that this process listens on, with their addresses as the kernel prints them.
std::map<uint16_t, std::string> listening();

}  // namespace unisono::testing
