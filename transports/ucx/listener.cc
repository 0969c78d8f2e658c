// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/listener.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "base/text.h"
#include "transports/ucx/gate.h"

namespace unisono {
namespace {

constexpr std::string_view kAddressMark = "unisono-ucx-1";

}  // namespace

Status Listener::open(const Settings& settings, ucp_listener_conn_handler_t handler) {
  const std::string& interface = settings.text(Setting::kInterface);
  Result<InterfaceChoice> choice = choose_interfaces(interface);
  if (!choice.ok()) return choice.status();

  // Without a choice, on all interfaces.
  std::vector<SocketAddress>& reachable = choice->addresses;
  if (!interface.empty()) reachable.erase(reachable.begin() + 1, reachable.end());
  const char* all = choice->family() == AF_INET ? "0.0.0.0" : "::";
  UNISONO_RETURN_IF_ERROR(
      bind(interface.empty() ? *parse_address(all) : reachable.front(), settings.ports(Setting::kPortRange), handler));
  ucp_listener_attr_t attributes = {};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  ucp_listener_query(listener_, &attributes);
  port_ = SocketAddress{attributes.sockaddr}.port();
  UNISONO_RETURN_IF_ERROR(close_gate(port_, engine_.client_id()));
  address_ = fmt::format("{} {} {}", kAddressMark, host_, port_);
  for (const SocketAddress& address : reachable) address_ += fmt::format(" {}", address.host());
  return Status();
}

Status Listener::bind(SocketAddress address, const PortRange& ports, ucp_listener_conn_handler_t handler) {
  ucp_listener_params_t parameters = {};
  parameters.field_mask =
      UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  parameters.conn_handler = handler;
  ucs_status_t status = UCS_OK;
  for (int port = ports.first; port <= ports.last; ++port) {
    address.set_port(static_cast<uint16_t>(port));
    parameters.sockaddr = {.addr = address.get(), .addrlen = address.length()};
    const std::lock_guard lock(descriptor_mutex());
    status = ucp_listener_create(engine_.worker, &parameters, &listener_);
    if (status == UCS_OK) return Status();
    listener_ = nullptr;
  }
  const std::string range = ports.is_any() ? "" : fmt::format(", ports {} to {}", ports.first, ports.last);
  return ucx_error(fmt::format("cannot listen on {}{}", address.host(), range), status);
}

void Listener::close() {
  if (listener_ == nullptr) return;
  const std::lock_guard lock(descriptor_mutex());
  ucp_listener_destroy(std::exchange(listener_, nullptr));
  ucp_worker_progress(engine_.worker);
}

bool Listener::admits(ucp_conn_request_h request) {
  ucp_conn_request_attr_t attributes = {};
  attributes.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID | UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR;
  const bool known = ucp_conn_request_query(request, &attributes) == UCS_OK &&
                     attributes.client_id == engine_.client_id();
  if (known)
    open_gate(port_, SocketAddress{attributes.client_address});
  else
    ucp_listener_reject(listener_, request);
  return known;
}

Result<std::vector<SocketAddress>> Listener::addresses_in(std::string_view peer_address) const {
  const auto words = split(peer_address, ' ');
  const auto port = words.size() < 4 ? std::nullopt : parse_integer(words[2]);
  if (!port || words[0] != kAddressMark)
    return invalid_argument("not the address of a ucx transport of this version");
  std::vector<SocketAddress> addresses;
  for (const std::string_view host : std::span(words).subspan(3)) {
    Result<SocketAddress> address = parse_address(host);
    if (!address.ok()) return address.status();
    address->set_port(static_cast<uint16_t>(*port));
    if (!address->is_loopback() || words[1] == host_) addresses.push_back(*address);
  }
  if (addresses.empty()) return unsupported("it listens on another host's loopback interface only");
  return addresses;
}

}  // namespace unisono
