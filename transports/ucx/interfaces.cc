// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/interfaces.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>

#include "base/network.h"
#include "topology/host.h"

namespace unisono {
namespace {

struct Interface {
  std::string name;
  SocketAddress address;
};

std::span<const uint8_t> bytes_of(const SocketAddress& address) {
  const auto* base = reinterpret_cast<const uint8_t*>(&address.storage);
  return address.family() == AF_INET ? std::span(base + offsetof(sockaddr_in, sin_addr), 4)
                                     : std::span(base + offsetof(sockaddr_in6, sin6_addr), 16);
}

// UCX uses neither link-local IPv6 nor IPv6 loopback.
bool is_usable(const SocketAddress& address) {
  const auto bytes = bytes_of(address);
  const bool link_local = bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
  return address.family() == AF_INET || (!link_local && !address.is_loopback());
}

Result<std::vector<Interface>> list_interfaces() {
  ifaddrs* head = nullptr;
  if (::getifaddrs(&head) != 0) return system_error("cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(head, &::freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = head; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Interface found{entry->ifa_name, {}};
    std::memcpy(&found.address.storage, entry->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (is_usable(found.address)) interfaces.push_back(std::move(found));
  }
  return interfaces;
}

// The RDMA ports behind an interface, as UCX names them: "mlx5_0:1".
std::vector<std::string> rdma_ports(const std::string& interface) {
  const std::filesystem::path folder = "/sys/class/net/" + interface;
  int port = 0;
  std::ifstream(folder / "dev_port") >> port;
  std::vector<std::string> ports;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "device/infiniband", error))
    ports.push_back(fmt::format("{}:{}", entry.path().filename().string(), port + 1));
  return ports;
}

bool is_hardware(const std::string& interface) {
  std::error_code error;
  return std::filesystem::exists("/sys/class/net/" + interface + "/device", error);
}

}  // namespace

void SocketAddress::set_port(uint16_t port) {
  if (family() == AF_INET) reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
}

uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET ? reinterpret_cast<const sockaddr_in*>(&storage)->sin_port
                                   : reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
}

bool SocketAddress::is_loopback() const {
  const auto bytes = bytes_of(*this);
  if (family() == AF_INET) return bytes[0] == 127;
  return bytes.back() == 1 &&
         std::ranges::all_of(bytes.first(15), [](uint8_t b) { return b == 0; });
}

std::string SocketAddress::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(family(), bytes_of(*this).data(), text, sizeof(text));
  return text;
}

Result<SocketAddress> parse_address(std::string_view host) {
  const std::string text(host);
  SocketAddress address;
  for (const int family : {AF_INET, AF_INET6}) {
    address.storage = {};
    address.storage.ss_family = static_cast<sa_family_t>(family);
    if (::inet_pton(family, text.c_str(), const_cast<uint8_t*>(bytes_of(address).data())) == 1)
      return address;
  }
  return invalid_argument(fmt::format("'{}': expected a numeric IPv4 or IPv6 address", host));
}

Result<InterfaceChoice> choose_interfaces(std::string_view text) {
  Result<std::vector<Interface>> interfaces = list_interfaces();
  if (!interfaces.ok()) return interfaces.status();
  const std::optional<Subnet> subnet = parse_subnet(text);

  InterfaceChoice choice;
  std::set<std::string> names;
  std::string known;
  for (const Interface& interface : *interfaces) {
    known +=
        fmt::format("{}{} {}", known.empty() ? "" : ", ", interface.name, interface.address.host());
    if (subnet ? !subnet->contains(interface.address.family(), bytes_of(interface.address))
               : !text.empty() && interface.name != text)
      continue;
    names.insert(interface.name);
    choice.addresses.push_back(interface.address);
  }
  if (choice.addresses.empty() && text.empty())
    return unsupported("ucx needs a network address, and cannot use [::1] and link-local ones");
  if (choice.addresses.empty())
    return invalid_argument(fmt::format(
        "UNISONO_INTERFACE={}: no such interface with an address that ucx can use (not [::1], not "
        "link-local); there are: {}",
        text, known));
  const auto leads_out = [](const SocketAddress& address, int family) {
    return address.family() == family && !address.is_loopback();
  };
  const auto any_out = [&](int family) {
    return std::ranges::any_of(choice.addresses,
                               [&](const auto& a) { return leads_out(a, family); });
  };
  const bool has_v4 =
      std::ranges::any_of(choice.addresses, [](const auto& a) { return a.family() == AF_INET; });
  const int family = !has_v4 || (any_out(AF_INET6) && !any_out(AF_INET)) ? AF_INET6 : AF_INET;
  std::erase_if(choice.addresses, [&](const auto& a) { return a.family() != family; });
  std::ranges::stable_partition(choice.addresses, &SocketAddress::is_loopback);
  for (const std::string& name : names) {
    std::vector<std::string> devices = rdma_ports(name);
    if (!devices.empty()) choice.kind = DeviceKind::kRdma;
    if (choice.kind == DeviceKind::kVirtual && is_hardware(name))
      choice.kind = DeviceKind::kEthernet;
    if (text.empty()) continue;
    devices.push_back(name);
    for (const std::string& device : devices)
      choice.devices += (choice.devices.empty() ? "" : ",") + device;
  }
  return choice;
}

std::string network_identity() {
  struct stat net = {};
  ::stat("/proc/self/ns/net", &net);
  return fmt::format("{}.{}", host_identity(), net.st_ino);
}

}  // namespace unisono
