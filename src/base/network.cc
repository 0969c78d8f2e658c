// SPDX-License-Identifier: Apache-2.0
#include "base/network.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <string>

#include "base/text.h"

namespace unisono {

std::optional<PortRange> parse_ports(std::string_view text) {
  if (text.empty()) return PortRange();
  const auto parts = split(text, ':');
  const auto first = parse_integer(parts.front()), last = parse_integer(parts.back());
  if (parts.size() > 2 || !first || !last || *first < 1 || *last > 65535 || *first > *last) return std::nullopt;
  return PortRange{static_cast<uint16_t>(*first), static_cast<uint16_t>(*last)};
}

bool Subnet::contains(int other_family, std::span<const uint8_t> address) const {
  if (other_family != family) return false;
  for (size_t bit = 0; bit < bits; ++bit)
    if (((base[bit / 8] ^ address[bit / 8]) & (0x80 >> bit % 8)) != 0) return false;
  return true;
}

std::optional<Subnet> parse_subnet(std::string_view text) {
  const auto parts = split(text, '/');
  const std::string address(parts[0]);
  Subnet subnet;
  for (const int family : {AF_INET, AF_INET6})
    if (inet_pton(family, address.c_str(), subnet.base.data()) == 1) subnet.family = family;
  const int64_t most = subnet.family == AF_INET ? 32 : 128;
  const auto bits = parts.size() == 2 ? parse_integer(parts[1]) : most;
  if (subnet.family == 0 || parts.size() > 2 || !bits || *bits < 0 || *bits > most) return std::nullopt;
  subnet.bits = static_cast<size_t>(*bits);
  return subnet;
}

}  // namespace unisono
