// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/connector.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cstring>

namespace unisono {
namespace {

using namespace std::chrono_literals;

constexpr auto kRetryPause = 50ms;
constexpr auto kClosePatience = 2s;

}  // namespace

Status Connector::listen(const Settings& settings) {
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kControlId;
  handler.cb = &on_control;
  handler.arg = this;
  const ucs_status_t status = ucp_worker_set_am_recv_handler(engine_.worker, &handler);
  if (status != UCS_OK) return ucx_error("ucx cannot register a message handler", status);
  return listener_.open(settings, {.cb = &on_request, .arg = this});
}

Status Connector::reach(std::string_view peer_address) const {
  return listener_.addresses_in(peer_address).status();
}

void Connector::on_request(ucp_conn_request_h request, void* self) {
  static_cast<Connector*>(self)->accept(request);
}

void Connector::accept(ucp_conn_request_h request) {
  if (!listener_.admits(request)) return;
  ucp_ep_params_t parameters = {};
  parameters.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  parameters.conn_request = request;
  Link* link = nullptr;
  (void)open_link(parameters, &link).ok();  // if it fails, the other side tries again
}

Status Connector::open_link(ucp_ep_params_t parameters, Link** opened) {
  auto link = std::make_unique<Link>(Link{.connector = this});
  parameters.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler = {.cb = &on_error, .arg = link.get()};
  ucs_status_t status;
  {
    const std::lock_guard lock(descriptor_mutex());
    status = ucp_ep_create(engine_.worker, &parameters, &link->endpoint);
  }
  if (status != UCS_OK) return ucx_error("cannot connect", status);
  *opened = link.get();
  links_.push_back(std::move(link));
  return Status();
}

void Connector::on_error(void* link_pointer, ucp_ep_h, ucs_status_t status) {
  Link& link = *static_cast<Link*>(link_pointer);
  link.failed = true;
  link.error = status;
  link.connector->engine_.attention = true;
}

ucs_status_t Connector::on_control(void* self, const void* header, size_t header_bytes, void*,
                                   size_t, const ucp_am_recv_param_t* parameters) {
  auto& connector = *static_cast<Connector*>(self);
  ControlMessage message;
  if (header_bytes != sizeof(message) ||
      (parameters->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0)
    return UCS_OK;
  std::memcpy(&message, header, sizeof(message));
  const auto link = std::ranges::find_if(
      connector.links_, [&](const auto& l) { return l->endpoint == parameters->reply_ep; });
  if (link != connector.links_.end() && message.magic == ControlMessage::kMagic &&
      std::memcmp(message.token.data(), connector.engine_.token.data(), kTokenBytes) == 0)
    connector.handle(**link, message);
  return UCS_OK;
}

void Connector::handle(Link& link, const ControlMessage& message) {
  const int rank = static_cast<int>(message.rank);
  if (message.kind == ControlKind::kHello && link.rank < 0) {
    greet(link, rank);
    return;
  }
  if (link.rank != rank || link.failed) return;
  switch (message.kind) {
    case ControlKind::kHello: return;
    case ControlKind::kWelcome:
      make_ready(link);
      send(link, ControlKind::kReady);
      return;
    case ControlKind::kReady: make_ready(link); return;
    case ControlKind::kFarewell:
      link.left = true;
      engine_.attention = true;
      send(link, ControlKind::kFarewellAck);
      return;
    case ControlKind::kFarewellAck: link.acknowledged = true; return;
    case ControlKind::kMismatch:
      if (link.ready) channels_[static_cast<size_t>(rank)]->on_mismatch(message);
      return;
  }
}

void Connector::greet(Link& link, int rank) {
  if (rank <= engine_.rank || rank >= static_cast<int>(channels_.size()) ||
      !expected_[static_cast<size_t>(rank)]) {
    link.failed = true;  // not mine to answer, or there already
    engine_.attention = true;
    return;
  }
  link.rank = rank;
  expected_[static_cast<size_t>(rank)] = false;
  send(link, ControlKind::kWelcome);
}

void Connector::make_ready(Link& link) {
  link.ready = true;
  connected_[static_cast<size_t>(link.rank)] = true;
  channels_[static_cast<size_t>(link.rank)]->set_endpoint(link.endpoint);
}

void Connector::send(Link& link, ControlKind kind) {
  send_control(link.endpoint, make_control(kind, engine_.rank, engine_.token));
}

void Connector::attempt(Target& target) {
  const SocketAddress& address = target.addresses[target.attempts++ % target.addresses.size()];
  ucp_ep_params_t parameters = {};
  parameters.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  parameters.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER | UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID;
  parameters.sockaddr = {.addr = address.get(), .addrlen = address.length()};
  const Status opened = open_link(parameters, &target.link);
  if (!opened.ok()) {
    target.last_error = opened.message();
    target.next_attempt = std::chrono::steady_clock::now() + kRetryPause;
    return;
  }
  target.link->rank = target.rank;
  send(*target.link, ControlKind::kHello);
}

Status Connector::connect(std::span<const PeerAddress> peers, Deadline deadline) {
  std::vector<Target> targets;
  for (const PeerAddress& peer : peers) {
    Result<std::vector<SocketAddress>> addresses = listener_.addresses_in(peer.address);
    if (!addresses.ok()) return addresses.status().in(fmt::format("rank {}", peer.rank));
    if (peer.rank < engine_.rank)
      targets.push_back({.rank = peer.rank, .addresses = addresses.take()});
    expected_[static_cast<size_t>(peer.rank)] = peer.rank > engine_.rank;
  }
  const auto is_connected = [&](const PeerAddress& peer) {
    return connected_[static_cast<size_t>(peer.rank)];
  };
  while (!std::ranges::all_of(peers, is_connected)) {
    const auto now = std::chrono::steady_clock::now();
    for (Target& target : targets) {
      if (target.link != nullptr && target.link->failed) {
        target.last_error = ucs_status_string(target.link->error);
        target.link = nullptr;
        target.next_attempt = now + kRetryPause;
      }
      if (target.link == nullptr && now >= target.next_attempt &&
          !connected_[static_cast<size_t>(target.rank)])
        attempt(target);
    }
    settle();
    if (ucp_worker_progress(engine_.worker) != 0) continue;
    if (deadline.passed()) break;
    engine_.sleep(std::min<std::chrono::nanoseconds>(deadline.left(), kRetryPause));
  }
  listener_.close();
  std::vector<std::string> missing;
  for (const PeerAddress& peer : peers) {
    if (is_connected(peer)) continue;
    const auto target = std::ranges::find(targets, peer.rank, &Target::rank);
    missing.push_back(fmt::format("{} ({})", peer.rank,
                                  target == targets.end() ? "has not called" : target->last_error));
  }
  if (missing.empty()) return Status();
  return Status(StatusCode::kTimeout,
                fmt::format("no connection over ucx with rank{} {}", missing.size() > 1 ? "s" : "",
                            fmt::join(missing, ", ")));
}

void Connector::close_link(Link& link) {
  if (link.ready) channels_[static_cast<size_t>(link.rank)]->set_endpoint(nullptr);
  ucp_request_param_t parameters = {};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const std::lock_guard lock(descriptor_mutex());
  void* request = ucp_ep_close_nbx(std::exchange(link.endpoint, nullptr), &parameters);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  ucp_worker_progress(engine_.worker);
}

void Connector::settle() {
  engine_.attention = false;
  for (size_t i = 0; i < links_.size(); ++i)  // closing one progresses, which may accept another
    if (links_[i]->endpoint != nullptr && (links_[i]->failed || links_[i]->left)) lose(*links_[i]);
  for (const auto& channel : channels_)
    if (channel != nullptr) channel->settle();
  std::erase_if(gone_, [](const auto& gone) {
    if (!gone.channel->idle() && gone.patience.passed()) gone.channel->give_up();
    return gone.channel->idle();
  });
  if (!gone_.empty()) engine_.attention = true;
}

void Connector::lose(Link& link) {
  if (link.ready) {
    UcxChannel& channel = *channels_[static_cast<size_t>(link.rank)];
    channel.settle();  // a mismatch came first
    if (link.left)
      channel.leave(Status(StatusCode::kPeerFailed, fmt::format("rank {} left", link.rank)));
    else
      channel.fail(peer_failed(link.rank, link.error));
    gone_.push_back({&channel, Deadline::after(kClosePatience)});
  } else if (link.rank > engine_.rank) {
    expected_[static_cast<size_t>(link.rank)] = true;  // it may call again
  }
  close_link(link);
}

void Connector::say_farewell(std::chrono::nanoseconds patience) {
  for (const auto& link : links_)
    if (link->ready && link->endpoint != nullptr && !link->failed)
      send(*link, ControlKind::kFarewell);
  const auto waits_for = [](const auto& link) {
    return link->ready && link->endpoint != nullptr && !link->failed && !link->left &&
           !link->acknowledged;
  };
  const Deadline deadline = Deadline::after(patience);
  while (std::ranges::any_of(links_, waits_for) && !deadline.passed())
    if (ucp_worker_progress(engine_.worker) == 0) engine_.sleep(deadline.left());
}

void Connector::close() {
  listener_.close();
  for (const auto& link : links_)
    if (link->endpoint != nullptr) close_link(*link);
  const auto idle = [](const auto& channel) { return channel == nullptr || channel->idle(); };
  const Deadline deadline = Deadline::after(kClosePatience);
  while (!std::ranges::all_of(channels_, idle) && !deadline.passed())
    if (ucp_worker_progress(engine_.worker) == 0) engine_.sleep(deadline.left());
  for (const auto& channel : channels_)
    if (channel != nullptr && !channel->idle()) channel->give_up();
}

}  // namespace unisono
