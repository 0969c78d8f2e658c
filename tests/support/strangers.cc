// SPDX-License-Identifier: Apache-2.0
#include "tests/support/strangers.h"

#include <poll.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace unisono::testing {

Socket stranger(const Endpoint& where, const std::string& says) {
  Socket socket(::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(socket.descriptor(), where.get(), where.length) != 0) return Socket();
  send(socket.descriptor(), says.data(), says.size(), MSG_NOSIGNAL);
  return socket;
}

std::vector<std::string> nonsense() {
  return {"", "x", "GET / HTTP/1.1\r\n\r\n", std::string(100, '\0'), std::string(5000, '\xff')};
}

std::string hear_out(const Socket& socket, int timeout_ms) {
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

std::map<uint16_t, std::string> listening() {
  std::set<std::string> sockets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    sockets.insert(std::filesystem::read_symlink(entry.path(), error));
  }
  std::map<uint16_t, std::string> ports;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, word, inode;
      words >> number >> local >> remote >> state >> word >> word >> word >> word >> word >> inode;
      const size_t colon = local.find(':');
      if (state == "0A" && sockets.contains("socket:[" + inode + "]"))
        ports[static_cast<uint16_t>(std::stoi(local.substr(colon + 1), nullptr, 16))] =
            local.substr(0, colon);
    }
  }
  return ports;
}

}  // namespace unisono::testing
