// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/gate.h"

#include <linux/filter.h>
#include <sys/socket.h>

#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/text.h"

namespace unisono {
namespace {

// The secret follows a header of UCX's connection manager and one of its worker address, whose
// lengths depend on its version: 33 to 41 bytes in 1.13.
constexpr uint32_t kSearchedBytes = 96;
constexpr uint32_t kPass = UINT32_MAX, kDrop = 0;

std::vector<sock_filter> program_for(uint64_t secret) {
  std::array<uint32_t, 2> words;  // as the filter loads them: big-endian
  std::memcpy(words.data(), &secret, sizeof(secret));
  if constexpr (std::endian::native == std::endian::little)
    for (uint32_t& word : words) word = __builtin_bswap32(word);

  // X = bytes of the TCP header; a load past the end drops the segment.
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 12),       BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
      BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 2),       BPF_STMT(BPF_MISC | BPF_TAX, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),        BPF_STMT(BPF_ALU | BPF_SUB | BPF_X, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1), BPF_STMT(BPF_RET | BPF_K, kPass),
  };
  for (uint32_t offset = 0; offset < kSearchedBytes; ++offset) {
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_IND, offset));
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, words[0], 0, 3));
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_IND, offset + 4));
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, words[1], 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, kPass));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, kDrop));
  return program;
}

// The end of a socket that `name` (getsockname or getpeername) tells; none for what is no IP
// socket.
template <typename Name>
std::optional<SocketAddress> end_of(int descriptor, Name name) {
  SocketAddress address;
  socklen_t length = sizeof(address.storage);
  if (name(descriptor, reinterpret_cast<sockaddr*>(&address.storage), &length) != 0)
    return std::nullopt;
  if (address.family() != AF_INET && address.family() != AF_INET6) return std::nullopt;
  return address;
}

// The descriptors of this process's TCP sockets with that local port.
std::vector<int> sockets_of(uint16_t port) {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const auto descriptor =
        static_cast<int>(parse_integer(entry.path().filename().string()).value_or(-1));
    int type = 0;
    socklen_t length = sizeof(type);
    if (::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM)
      continue;
    const auto local = end_of(descriptor, ::getsockname);
    if (local && local->port() == port) found.push_back(descriptor);
  }
  return found;
}

}  // namespace

Status close_gate(uint16_t port, uint64_t secret) {
  std::vector<sock_filter> program = program_for(secret);
  const sock_fprog filter = {.len = static_cast<unsigned short>(program.size()),
                             .filter = program.data()};
  for (const int descriptor : sockets_of(port)) {
    int listens = 0;
    socklen_t length = sizeof(listens);
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0)
      continue;
    if (::setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) != 0)
      return system_error("cannot put a filter on the listening socket");
  }
  return Status();
}

void open_gate(uint16_t port, const SocketAddress& client) {
  for (const int descriptor : sockets_of(port)) {
    const auto remote = end_of(descriptor, ::getpeername);
    const int unused = 0;
    if (remote && remote->port() == client.port() && remote->host() == client.host())
      (void)::setsockopt(descriptor, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused));
  }
}

}  // namespace unisono
