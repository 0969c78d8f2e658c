// SPDX-License-Identifier: Apache-2.0
#include "transports/host_memory/hello.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace unisono::host_memory {
namespace {

struct SocketName {
  sockaddr_un name{};
  socklen_t bytes;

  explicit SocketName(const Address& address) {
    name.sun_family = AF_UNIX;  // sun_path[0] = 0: abstract, so nothing is left in any file system
    const size_t length = strnlen(address.socket.data(), address.socket.size());
    std::memcpy(name.sun_path + 1, address.socket.data(), length);
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

Descriptor new_socket() {
  return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// The kernel's word for who holds the other end; it cannot be forged.
bool same_user(const Descriptor& connection) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  return getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0 &&
         credentials.uid == geteuid();
}

template <typename Call>
auto retried(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

struct ControlBuffer {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * Hello::kFiles)> bytes{};
};

bool send_hello(const Descriptor& connection, const Hello& hello, std::span<const int> files) {
  iovec vector{const_cast<Hello*>(&hello), sizeof hello};
  ControlBuffer control;
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(header), files.data(), files.size_bytes());
  }
  return retried([&] { return sendmsg(connection.get(), &message, MSG_NOSIGNAL); }) ==
         static_cast<ssize_t>(sizeof hello);
}

}  // namespace

Hello::Hello(const std::string& job_token, int from, int to, uint32_t index)
    : from(from), to(to), index(index), pid(static_cast<int32_t>(getpid())) {
  assert(job_token.size() == kTokenBytes);
  std::ranges::copy(job_token, token.begin());
}

bool Hello::is_for(int rank, const std::string& job_token) const {
  const Hello expected(job_token, from, rank, index);
  return magic == expected.magic && version == expected.version && token == expected.token && to == rank;
}

Result<Descriptor> listen_at(const Address& mine) {
  Descriptor listener = new_socket();
  if (!listener.valid()) return system_error("host_memory: cannot make a socket");
  const SocketName name(mine);
  if (bind(listener.get(), name.get(), name.bytes) != 0 || listen(listener.get(), SOMAXCONN) != 0)
    return system_error("host_memory: cannot listen");
  return listener;
}

Descriptor accept_visitor(const Descriptor& listener) {
  for (;;) {
    Descriptor visitor(retried(
        [&] { return accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }));
    if (!visitor.valid() || same_user(visitor)) return visitor;
  }
}

int greet(const Address& peer, const Hello& hello, std::span<const int> files) {
  const Descriptor connection = new_socket();
  const SocketName name(peer);
  if (!connection.valid() ||
      retried([&] { return ::connect(connection.get(), name.get(), name.bytes); }) != 0)
    return errno;
  if (!same_user(connection)) return EACCES;
  return send_hello(connection, hello, files) ? 0 : errno;
}

Received receive_hello(const Descriptor& connection) {
  Received received{};
  std::array<char, sizeof(Hello) + 1> buffer;  // one byte more: a longer message is seen as such
  iovec vector{buffer.data(), buffer.size()};
  ControlBuffer control;
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  received.bytes = retried([&] { return recvmsg(connection.get(), &message, MSG_CMSG_CLOEXEC); });
  if (received.bytes < 0) return received;
  std::memcpy(&received.hello, buffer.data(), sizeof(Hello));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      received.files.emplace_back(fd);
    }
  }
  return received;
}

}  // namespace unisono::host_memory
