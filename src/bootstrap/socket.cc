// SPDX-License-Identifier: Apache-2.0
// System calls behind stream sockets and endpoints.
#include "bootstrap/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>

#include "bootstrap/token.h"

namespace unisono {
namespace {

template <typename Value>
void set_option(int descriptor, int level, int option, Value value) {
  // Only ever an improvement: a kernel that refuses one is still right without it.
  setsockopt(descriptor, level, option, &value, sizeof(value));
}

}  // namespace

Socket::~Socket() {
  if (valid()) close(descriptor_);
}

uint16_t Endpoint::port() const {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  if (family() == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  return 0;
}

void Endpoint::set_port(uint16_t port) {
  if (family() == AF_INET) reinterpret_cast<sockaddr_in*>(&address)->sin_port = htons(port);
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&address)->sin6_port = htons(port);
}

Endpoint local_endpoint(std::string_view token) {
  const std::string name =
      "unisono-" + format_token(derive_token(token).substr(0, kTokenBytes / 2));
  Endpoint endpoint;
  auto* address = reinterpret_cast<sockaddr_un*>(&endpoint.address);
  address->sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address->sun_path + 1);  // a leading zero: abstract
  endpoint.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return endpoint;
}

Endpoint literal_endpoint(std::string_view text, uint16_t port) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  const std::string literal(text);
  Endpoint endpoint;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&endpoint.address);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&endpoint.address);
  if (inet_pton(AF_INET, literal.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    endpoint.length = sizeof(*v4);
  } else if (inet_pton(AF_INET6, literal.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    endpoint.length = sizeof(*v6);
  }
  endpoint.set_port(port);
  return endpoint;
}

Result<std::vector<Endpoint>> resolve(const std::string& host, uint16_t port, Deadline deadline) {
  if (const Endpoint literal = literal_endpoint(host, port); literal.length != 0)
    return std::vector<Endpoint>{literal};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  for (;;) {
    addrinfo* found = nullptr;
    const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, [](addrinfo* list) {
      if (list != nullptr) freeaddrinfo(list);
    });
    std::vector<Endpoint> endpoints;
    for (const addrinfo* entry = found; error == 0 && entry != nullptr; entry = entry->ai_next) {
      Endpoint& endpoint = endpoints.emplace_back();
      endpoint.length = std::min<socklen_t>(entry->ai_addrlen, sizeof(endpoint.address));
      std::memcpy(&endpoint.address, entry->ai_addr, endpoint.length);
      endpoint.set_port(port);
    }
    if (!endpoints.empty()) return endpoints;
    // A name that a cluster is still about to publish looks like one that does not exist.
    constexpr auto kPause = std::chrono::milliseconds(250);
    if (deadline.left() <= kPause)
      return Status(StatusCode::kTimeout,
                    fmt::format("host '{}' is unknown: {}", host, gai_strerror(error)));
    std::this_thread::sleep_for(kPause);
  }
}

std::string text_of(const Endpoint& endpoint) {
  char host[INET6_ADDRSTRLEN] = "?";
  if (endpoint.family() == AF_INET) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(&endpoint.address);
    inet_ntop(AF_INET, &address->sin_addr, host, sizeof(host));
    return fmt::format("{}:{}", host, endpoint.port());
  }
  if (endpoint.family() == AF_INET6) {
    const auto* address = reinterpret_cast<const sockaddr_in6*>(&endpoint.address);
    inet_ntop(AF_INET6, &address->sin6_addr, host, sizeof(host));
    return fmt::format("[{}]:{}", host, endpoint.port());
  }
  constexpr size_t kNameOffset = offsetof(sockaddr_un, sun_path) + 1;
  if (endpoint.family() != AF_UNIX || endpoint.length <= kNameOffset) return "a local process";
  const auto* address = reinterpret_cast<const sockaddr_un*>(&endpoint.address);
  return fmt::format("@{}", std::string_view(address->sun_path + 1, endpoint.length - kNameOffset));
}

Result<Socket> open_socket(int family) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return system_error("cannot open a socket");
  return socket;
}

Result<Socket> listen_on(const Endpoint& endpoint) {
  auto socket = open_socket(endpoint.family());
  if (!socket.ok()) return socket;
  const int descriptor = socket->descriptor();
  // Connections of an earlier job may linger on the port; a second listener is still refused.
  set_option(descriptor, SOL_SOCKET, SO_REUSEADDR, 1);
  if (endpoint.family() == AF_INET6) {
    const auto* address = reinterpret_cast<const sockaddr_in6*>(&endpoint.address);
    const bool any = IN6_IS_ADDR_UNSPECIFIED(&address->sin6_addr);
    set_option(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, any ? 0 : 1);
  }
  if (bind(descriptor, endpoint.get(), endpoint.length) != 0 || listen(descriptor, SOMAXCONN) != 0)
    return system_error(fmt::format("cannot listen on {}", text_of(endpoint)));
  return socket;
}

Socket accept_from(int listener) {
  for (;;) {
    Socket socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid() || (errno != EINTR && errno != ECONNABORTED)) return socket;
  }
}

Endpoint local_end(int descriptor) {
  Endpoint endpoint;
  endpoint.length = sizeof(endpoint.address);
  if (getsockname(descriptor, endpoint.get(), &endpoint.length) != 0) endpoint.length = 0;
  return endpoint;
}

Endpoint remote_end(int descriptor) {
  Endpoint endpoint;
  endpoint.length = sizeof(endpoint.address);
  if (getpeername(descriptor, endpoint.get(), &endpoint.length) != 0) endpoint.length = 0;
  return endpoint;
}

bool is_same_user(int descriptor) {
  if (local_end(descriptor).family() != AF_UNIX) return true;
  ucred peer{};
  socklen_t length = sizeof(peer);
  return getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == geteuid();
}

void tune(int descriptor) {
  if (local_end(descriptor).family() == AF_UNIX) return;
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 4);
  set_option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000u);
}

}  // namespace unisono
