// SPDX-License-Identifier: Apache-2.0
// Choosing addresses and ports to listen on.
#include "bootstrap/listener.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <span>

#include "base/network.h"

namespace unisono {
namespace {

struct HostAddress {
  std::string interface;
  Endpoint endpoint;
  bool loopback = false;
  bool link_local = false;
};

std::span<const uint8_t> bytes_of(const Endpoint& endpoint) {
  if (endpoint.family() == AF_INET)
    return {reinterpret_cast<const uint8_t*>(
                &reinterpret_cast<const sockaddr_in*>(&endpoint.address)->sin_addr),
            4};
  return reinterpret_cast<const sockaddr_in6*>(&endpoint.address)->sin6_addr.s6_addr;
}

Result<std::vector<HostAddress>> host_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return system_error("cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<HostAddress> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const int family = entry->ifa_addr != nullptr ? entry->ifa_addr->sa_family : AF_UNSPEC;
    if ((entry->ifa_flags & IFF_UP) == 0 || (family != AF_INET && family != AF_INET6)) continue;
    HostAddress& address = addresses.emplace_back();
    address.interface = entry->ifa_name;
    address.endpoint.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.endpoint.address, entry->ifa_addr, address.endpoint.length);
    address.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    const auto bytes = bytes_of(address.endpoint);
    address.link_local = family == AF_INET6 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  }
  std::ranges::stable_sort(addresses, {}, [](const HostAddress& address) {
    return address.endpoint.family() != AF_INET;
  });
  return addresses;
}

Endpoint any_address(bool v6) {
  return literal_endpoint(v6 ? "::" : "0.0.0.0", 0);
}

}  // namespace

Result<std::vector<Endpoint>> interface_addresses(const Settings& settings) {
  auto addresses = host_addresses();
  if (!addresses.ok()) return addresses.status();
  const std::string& wanted = settings.text(Setting::kInterface);
  const auto select = [&](auto holds) {
    std::vector<Endpoint> found;
    for (const HostAddress& address : *addresses)
      if (!address.link_local && holds(address)) found.push_back(address.endpoint);
    return found;
  };
  if (wanted.empty()) {
    auto found = select([](const HostAddress& address) { return !address.loopback; });
    if (found.empty()) found = select([](const HostAddress&) { return true; });
    if (!found.empty()) return found;
    return Status(StatusCode::kSystem, "this host has no network address, not even loopback");
  }
  const auto subnet = parse_subnet(wanted);
  const auto found = select([&](const HostAddress& address) {
    return subnet ? subnet->contains(address.endpoint.family(), bytes_of(address.endpoint))
                  : address.interface == wanted;
  });
  if (!found.empty()) return found;
  std::set<std::string> names;
  for (const HostAddress& address : *addresses) names.insert(address.interface);
  return invalid_argument(
      fmt::format("UNISONO_INTERFACE={}: no address of this host is there; expected a subnet like "
                  "10.1.0.0/16, or "
                  "one of {}",
                  wanted, fmt::join(names, ", ")));
}

Result<std::vector<Socket>> listen_for(const std::string& host, uint16_t port,
                                       const Settings& settings) {
  if (!settings.ports(Setting::kPortRange).contains(port))
    return invalid_argument(fmt::format("port {} of {} is outside UNISONO_PORT_RANGE={}", port,
                                        host, settings.text(Setting::kPortRange)));
  std::vector<Socket> listeners;
  const auto listen_here = [&](Endpoint endpoint) {
    endpoint.set_port(port);
    auto listener = listen_on(endpoint);
    if (listener.ok()) listeners.push_back(listener.take());
    return listener.status();
  };
  const Endpoint literal = literal_endpoint(host, port);
  if (!settings.text(Setting::kInterface).empty()) {
    const auto addresses = interface_addresses(settings);
    if (!addresses.ok()) return addresses.status();
    for (const Endpoint& address : *addresses) UNISONO_RETURN_IF_ERROR(listen_here(address));
    return listeners;
  }
  if (literal.length != 0) {
    const Status status = listen_here(literal);
    if (status.ok()) return listeners;
    if (errno != EADDRNOTAVAIL)
      return status;  // else: an address that only others use for this host
  }
  const Status both = listen_here(any_address(true));
  if (!both.ok() && errno != EAFNOSUPPORT) return both;
  if (!both.ok()) UNISONO_RETURN_IF_ERROR(listen_here(any_address(false)));
  return listeners;
}

Result<Socket> listen_in_range(Endpoint& where, const Settings& settings) {
  const PortRange range = settings.ports(Setting::kPortRange);
  Status status;
  for (unsigned port = range.first; port <= range.last; ++port) {
    where.set_port(static_cast<uint16_t>(port));
    auto listener = listen_on(where);
    if (!listener.ok()) {
      status = listener.status();
      continue;
    }
    where.set_port(local_end(listener->descriptor()).port());
    return listener;
  }
  if (range.is_any()) return status;
  return status.in(
      fmt::format("no free port in UNISONO_PORT_RANGE={}", settings.text(Setting::kPortRange)));
}

}  // namespace unisono
