// SPDX-License-Identifier: Apache-2.0
// Connections that do not belong to the job, for tests of the rendezvous.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <string>

#include "bootstrap/socket.h"

namespace unisono::testing {

// Connected and, if that says something, with it said.
inline Socket stranger(const Endpoint& where, const std::string& says) {
  Socket socket(::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(socket.descriptor(), where.get(), where.length) != 0) return Socket();
  send(socket.descriptor(), says.data(), says.size(), MSG_NOSIGNAL);
  return socket;
}

// What the other side sends until it hangs up.
inline std::string hear_out(const Socket& socket, int timeout_ms) {
  std::string heard;
  char buffer[4096];
  for (;;) {
    pollfd ready{socket.descriptor(), POLLIN, 0};
    if (poll(&ready, 1, timeout_ms) != 1) return heard + " and nothing more";
    const ssize_t got = recv(socket.descriptor(), buffer, sizeof(buffer), 0);
    if (got <= 0) return heard;
    heard.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace unisono::testing
