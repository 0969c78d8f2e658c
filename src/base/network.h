// SPDX-License-Identifier: Apache-2.0
// What users write of networks: ranges of ports, and parts of the address space.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace unisono {

struct PortRange {
  uint16_t first = 0, last = 0;  // 0:0 is any free port

  bool is_any() const { return last == 0; }
  bool contains(uint16_t port) const { return is_any() || (first <= port && port <= last); }
};
// "20000:20100", "20000", or "" for any.
std::optional<PortRange> parse_ports(std::string_view text);

// The addresses of a family whose first bits are these.
struct Subnet {
  int family = 0;                    // AF_INET or AF_INET6
  std::array<uint8_t, 16> base = {};  // IPv4: 4 of them
  size_t bits = 0;

  // `address` in network order.
  bool contains(int family, std::span<const uint8_t> address) const;
};
// "10.1.0.0/16", "fd00::/8", or one address.
std::optional<Subnet> parse_subnet(std::string_view text);

}  // namespace unisono
