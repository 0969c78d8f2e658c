// SPDX-License-Identifier: Apache-2.0
// Finds out who and where this rank is.
#include "transports/host_memory/address.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <type_traits>

namespace unisono::host_memory {
namespace {

static_assert(std::is_trivially_copyable_v<Address> &&
              std::has_unique_object_representations_v<Address>);

Result<uint64_t> identity_of(const char* namespace_file) {
  struct stat status;
  if (stat(namespace_file, &status) != 0)
    return system_error(fmt::format("cannot read {}", namespace_file));
  return uint64_t{status.st_ino};
}

Status fill_random(void* data, size_t bytes) {
  ssize_t got;
  do got = getrandom(data, bytes, 0);
  while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(bytes) ? Status() : system_error("cannot get random bytes");
}

}  // namespace

Result<Address> Address::mine() {
  Address address;
  constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";
  if (!std::ifstream(kBootId).read(address.boot_id.data(), address.boot_id.size()))
    return Status(StatusCode::kSystem, fmt::format("cannot read {}", kBootId));
  const struct {
    const char* file;
    uint64_t& value;
  } namespaces[] = {{"/proc/self/ns/net", address.network_namespace},
                    {"/proc/self/ns/user", address.user_namespace},
                    {"/proc/self/ns/pid", address.pid_namespace}};
  for (const auto& each : namespaces) {
    const Result<uint64_t> identity = identity_of(each.file);
    if (!identity.ok()) return identity.status();
    each.value = *identity;
  }
  address.user = geteuid();
  address.pid = getpid();
  std::array<uint64_t, 2> random;
  UNISONO_RETURN_IF_ERROR(fill_random(random.data(), sizeof random));
  address.id = random[0];
  fmt::format_to_n(address.socket.data(), address.socket.size(), "unisono-{:016x}", random[1]);
  return address;
}

Result<Address> Address::parse(std::string_view bytes) {
  Address address;
  if (bytes.size() != sizeof address)
    return invalid_argument(fmt::format("host_memory address: expected {} bytes, got {}",
                                        sizeof address, bytes.size()));
  std::memcpy(&address, bytes.data(), sizeof address);
  if (address.magic != kMagic || address.version != kVersion)
    return invalid_argument(fmt::format("host_memory address: expected version {}, got {}",
                                        kVersion, address.magic == kMagic ? address.version : 0));
  return address;
}

std::string Address::bytes() const {
  return std::string(reinterpret_cast<const char*>(this), sizeof *this);
}

Status Address::reaches(const Address& peer) const {
  if (boot_id != peer.boot_id) return unsupported("host_memory: the peer is on another host");
  if (network_namespace != peer.network_namespace)
    return unsupported("host_memory: the peer is in another network namespace");
  if (user_namespace != peer.user_namespace || user != peer.user)
    return unsupported(fmt::format("host_memory: the peer runs as user {}, this rank as {}{}",
                                   peer.user, user,
                                   user == peer.user ? " of another namespace" : ""));
  return Status();
}

}  // namespace unisono::host_memory
