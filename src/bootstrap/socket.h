// SPDX-License-Identifier: Apache-2.0
// Stream sockets and where they lead: TCP addresses and abstract Unix names behind one type.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"

namespace unisono {

// Owns a descriptor. Made close-on-exec and non-blocking.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  bool valid() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

// A value: an address of any family that a stream socket can have.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  int family() const { return address.ss_family; }
  uint16_t port() const;  // 0 for Unix names
  void set_port(uint16_t port);
};

// The name in the abstract namespace where rank 0 of a job listens. Everybody can list such names,
// so it gives away only half of the token's bits.
Endpoint local_endpoint(std::string_view token);
// A literal IPv4 or IPv6 address, brackets allowed; length 0 if `text` is none.
Endpoint literal_endpoint(std::string_view text, uint16_t port);
// All addresses of a host; retries while the name is not known yet. The system's resolver keeps no
// deadline: one look-up may outlast it by its own timeout.
Result<std::vector<Endpoint>> resolve(const std::string& host, uint16_t port, Deadline deadline);
std::string text_of(const Endpoint& endpoint);  // "127.0.0.1:29500", "[::1]:29500", "@unisono-…"

// Errors: kSystem naming the endpoint.
Result<Socket> listen_on(const Endpoint& endpoint);
Result<Socket> open_socket(int family);
// Invalid when there is nobody to accept (any more); errno says why: EAGAIN, EMFILE, …
Socket accept_from(int listener);

Endpoint local_end(int descriptor);
Endpoint remote_end(int descriptor);
// A Unix socket's peer runs as this user; other families cannot know and say true.
bool is_same_user(int descriptor);
// No Nagle delay; a vanished host is noticed within about 30 s. Nothing for Unix sockets.
void tune(int descriptor);

}  // namespace unisono
