// SPDX-License-Identifier: Apache-2.0
// Listener: where peers reach this rank, who is let in, and the address that says so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "base/status.h"
#include "transports/ucx/engine.h"
#include "transports/ucx/interfaces.h"

namespace unisono {

class Listener {
 public:
  // The engine outlives it.
  explicit Listener(Engine& engine) : engine_(engine) {}
  ~Listener() { close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Connection requests come to `handler` while the engine's worker progresses.
  Status open(const Settings& settings, ucp_listener_conn_handler_t handler);
  // Takes a request of this job, and refuses any other.
  bool admits(ucp_conn_request_h request);
  void close();

  const std::string& address() const { return address_; }
  // Of a peer's listener, those that can be tried from this host.
  Result<std::vector<SocketAddress>> addresses_in(std::string_view peer_address) const;

 private:
  Status bind(SocketAddress address, const PortRange& ports, ucp_listener_conn_handler_t handler);

  Engine& engine_;
  const std::string host_ = network_identity();
  std::string address_;
  ucp_listener_h listener_ = nullptr;
  uint16_t port_ = 0;
};

}  // namespace unisono
