// SPDX-License-Identifier: Apache-2.0
// Network interfaces of this host, the part of them that the user allows, and addresses in text
// form.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace unisono {

// An IPv4 or IPv6 socket address.
struct SocketAddress {
  sockaddr_storage storage = {};

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  socklen_t length() const {
    return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  }
  void set_port(uint16_t port);
  uint16_t port() const;
  bool is_loopback() const;
  std::string host() const;  // "10.1.0.3", "fd00::2"
};
// A numeric address. Errors: kInvalidArgument.
Result<SocketAddress> parse_address(std::string_view host);

enum class DeviceKind : uint8_t { kVirtual, kEthernet, kRdma };

struct InterfaceChoice {
  std::string devices;                   // names, comma-separated; empty: no restriction
  std::vector<SocketAddress> addresses;  // usable, of one family, loopback first
  DeviceKind kind = DeviceKind::kVirtual;

  int family() const { return addresses.front().family(); }
};
// `text`: a name ("eth0"), a subnet ("10.1.0.0/16"), an address, or empty for all. IPv6 only where it is asked
// for or there is no IPv4 but loopback: UCX joins control and data connections of one family only.
// Errors: kInvalidArgument, with what there is.
Result<InterfaceChoice> choose_interfaces(std::string_view text);

// Equal for two processes that reach each other over loopback: kernel and network namespace.
std::string network_identity();

}  // namespace unisono
