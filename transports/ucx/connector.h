// SPDX-License-Identifier: Apache-2.0
// Makes and ends the connections of a transport: one for each pair of ranks, from the higher to the
// lower.
//
// A connection request carries half of the job's token and is refused without it; the first message
// on a connection carries all of it and the sender's rank. The listener exists only until all are
// connected.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/transport.h"
#include "transports/ucx/channel.h"
#include "transports/ucx/control.h"
#include "transports/ucx/engine.h"
#include "transports/ucx/interfaces.h"
#include "transports/ucx/listener.h"

namespace unisono {

class Connector {
 public:
  static constexpr size_t kTokenBytes = sizeof(ControlMessage::token);

  // Both outlive it; `channels` by rank, null for mine. Precondition: the engine's token has
  // kTokenBytes.
  Connector(Engine& engine, std::span<const std::unique_ptr<UcxChannel>> channels)
      : engine_(engine),
        channels_(channels),
        connected_(channels.size()),
        expected_(channels.size()),
        listener_(engine) {}
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

  Status listen(const Settings& settings);
  const std::string& address() const { return listener_.address(); }
  Status reach(std::string_view peer_address) const;
  // Once. Errors: kTimeout naming who is missing; kInvalidArgument for an address that is none.
  Status connect(std::span<const PeerAddress> peers, Deadline deadline);

  // Deals with connections that have failed: ends the posts to their peers. Not within UCX's
  // progress.
  void settle();
  // Tells every peer that no more will come and waits until each has read all or has left: what is
  // still on its way when a connection closes is lost.
  void say_farewell(std::chrono::nanoseconds patience);
  // Closes every connection at once; bounded.
  void close();

 private:
  struct Link {
    Connector* connector;
    ucp_ep_h endpoint = nullptr;
    int rank = -1;  // not known yet
    bool ready = false;
    bool failed = false;
    bool left = false;          // the peer has said farewell
    bool acknowledged = false;  // the peer has read mine
    ucs_status_t error = UCS_OK;
  };
  // Where a lower rank listens, and how the attempts go.
  struct Target {
    int rank;
    std::vector<SocketAddress> addresses;
    size_t attempts = 0;
    Link* link = nullptr;
    std::string last_error = "no answer";
    std::chrono::steady_clock::time_point next_attempt = {};
  };

  // A failed peer's channel, with posts that UCX still works on.
  struct Gone {
    UcxChannel* channel;
    Deadline patience;
  };

  static void on_request(ucp_conn_request_h request, void* self);
  static void on_error(void* link, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t on_control(void* self, const void* header, size_t header_bytes, void* data,
                                 size_t bytes, const ucp_am_recv_param_t* parameters);

  void accept(ucp_conn_request_h request);
  Status open_link(ucp_ep_params_t parameters, Link** opened);
  void handle(Link& link, const ControlMessage& message);
  void greet(Link& link, int rank);
  void make_ready(Link& link);
  void attempt(Target& target);
  void send(Link& link, ControlKind kind);
  void lose(Link& link);  // it has failed, or its peer has left
  void close_link(Link& link);

  Engine& engine_;
  const std::span<const std::unique_ptr<UcxChannel>> channels_;
  std::vector<std::unique_ptr<Link>> links_;  // closed ones too: UCX may still hold a pointer
  std::vector<Gone> gone_;
  std::vector<bool> connected_;  // by rank: has been, at least
  std::vector<bool> expected_;   // by rank: connects to me, and has not yet
  Listener listener_;            // until all are connected; progresses when it closes, while the rest is there
};

}  // namespace unisono
