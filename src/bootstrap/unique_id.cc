// SPDX-License-Identifier: Apache-2.0
// Rendezvous by 128 bytes that the caller hands to all ranks: where rank 0 listens, and the job
// token.
//
//   version 1 | token 16 | count 1 | count × (family 1: 4 or 6, port 2 big-endian, address 4 or 16)
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include "bootstrap/bootstrap.h"
#include "bootstrap/listener.h"
#include "bootstrap/star.h"
#include "bootstrap/token.h"

namespace unisono {
namespace {

constexpr char kVersion = 1;

// The listeners of ids that this process made and rank 0 has not used yet, by token. The one global
// of the library: an id is plain bytes, so nothing else can lead from it to the open socket.
class Pending {
 public:
  static Pending& instance() {
    static Pending pending;
    return pending;
  }
  void put(const std::string& token, std::vector<Socket> listeners) {
    const std::lock_guard lock(mutex_);
    listeners_[token] = std::move(listeners);
  }
  std::vector<Socket> take(const std::string& token) {
    const std::lock_guard lock(mutex_);
    auto node = listeners_.extract(token);
    return node.empty() ? std::vector<Socket>() : std::move(node.mapped());
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<Socket>> listeners_;
};

std::string encode(const Endpoint& endpoint) {
  const bool v4 = endpoint.family() == AF_INET;
  std::string bytes{static_cast<char>(v4 ? 4 : 6), static_cast<char>(endpoint.port() >> 8),
                    static_cast<char>(endpoint.port())};
  if (v4) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(&endpoint.address);
    bytes.append(reinterpret_cast<const char*>(&address->sin_addr), 4);
  } else {
    const auto* address = reinterpret_cast<const sockaddr_in6*>(&endpoint.address);
    bytes.append(reinterpret_cast<const char*>(&address->sin6_addr), 16);
  }
  return bytes;
}

// One endpoint off the front of `bytes`; length 0 if there is none.
Endpoint take_endpoint(std::string_view& bytes) {
  const size_t length = bytes.empty() ? 0 : bytes[0] == 4 ? 4 : bytes[0] == 6 ? 16 : 0;
  if (length == 0 || bytes.size() < 3 + length) return {};
  Endpoint endpoint = literal_endpoint(length == 4 ? "0.0.0.0" : "::", 0);
  endpoint.set_port(
      static_cast<uint16_t>(static_cast<uint8_t>(bytes[1]) << 8 | static_cast<uint8_t>(bytes[2])));
  char* address =
      length == 4
          ? reinterpret_cast<char*>(&reinterpret_cast<sockaddr_in*>(&endpoint.address)->sin_addr)
          : reinterpret_cast<char*>(&reinterpret_cast<sockaddr_in6*>(&endpoint.address)->sin6_addr);
  std::copy_n(bytes.data() + 3, length, address);
  bytes.remove_prefix(3 + length);
  return endpoint;
}

Status listen_everywhere(std::vector<Endpoint>& addresses, std::vector<Socket>& listeners,
                         const Settings& settings) {
  Endpoint any = literal_endpoint("::", 0);
  auto listener = listen_in_range(any, settings);
  if (!listener.ok() && errno == EAFNOSUPPORT) {
    any = literal_endpoint("0.0.0.0", 0);
    listener = listen_in_range(any, settings);
  }
  if (!listener.ok()) return listener.status();
  listeners.push_back(listener.take());
  for (Endpoint& address : addresses) address.set_port(any.port());
  return Status();
}

}  // namespace

Result<UniqueId> make_unique_id(const Settings& settings) {
  auto addresses = interface_addresses(settings);
  if (!addresses.ok()) return addresses.status();
  std::vector<Socket> listeners;
  if (settings.text(Setting::kInterface).empty()) {
    UNISONO_RETURN_IF_ERROR(listen_everywhere(*addresses, listeners, settings));
  } else {
    for (Endpoint& address : *addresses) {
      auto listener = listen_in_range(address, settings);
      if (!listener.ok()) return listener.status();
      listeners.push_back(listener.take());
    }
  }
  const std::string token = random_token();
  UniqueId id;
  std::string bytes = kVersion + token + '\0';
  for (const Endpoint& address : *addresses) {
    const std::string entry = encode(address);
    if (bytes.size() + entry.size() > id.bytes.size()) break;  // the first ones have to do
    bytes += entry;
    ++bytes[1 + kTokenBytes];
  }
  std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
  Pending::instance().put(token, std::move(listeners));
  return id;
}

Result<std::unique_ptr<Bootstrap>> make_unique_id_bootstrap(const UniqueId& id, int size, int rank,
                                                            const Settings& settings,
                                                            Deadline deadline) {
  if (size < 1 || rank < 0 || rank >= size)
    return invalid_argument(
        fmt::format("expected 0 <= rank < size, got rank {} of {}", rank, size));
  const std::string bytes(id.bytes.begin(), id.bytes.end());
  StarOptions options{rank, size, bytes.substr(1, kTokenBytes), {}, {}, Log(settings, rank)};
  std::string_view rest = std::string_view(bytes).substr(2 + kTokenBytes);
  for (int left = bytes[1 + kTokenBytes]; left > 0; --left)
    options.rendezvous.push_back(take_endpoint(rest));
  const auto is_broken = [](const Endpoint& endpoint) { return endpoint.length == 0; };
  if (bytes[0] != kVersion || options.rendezvous.empty() ||
      std::ranges::any_of(options.rendezvous, is_broken))
    return invalid_argument("expected the 128 bytes of a unique id, got something else");
  if (rank == 0) {
    options.listeners = Pending::instance().take(options.token);
    if (options.listeners.empty())
      return invalid_argument(
          "rank 0 must be in the process that made the unique id, and an id serves once");
  }
  return join_star(std::move(options), deadline);
}

}  // namespace unisono
