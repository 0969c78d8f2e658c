// SPDX-License-Identifier: Apache-2.0
// The transport `ucx`: one UCX worker per communicator, connections with peer error handling.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/transport.h"
#include "transports/ucx/channel.h"
#include "transports/ucx/connector.h"
#include "transports/ucx/engine.h"

namespace unisono {

class UcxTransport final : public Transport {
 public:
  // Errors: kUnsupported for more ranks than a tag can tell apart; kInvalidArgument for settings
  // and the job token; kSystem and kOutOfResources from UCX.
  static Result<std::unique_ptr<Transport>> create(const TransportContext& context);
  ~UcxTransport() override;

  std::string address() const override { return connector_.address(); }
  Status reach(std::string_view peer_address) const override {
    return connector_.reach(peer_address);
  }
  Status connect(std::span<const PeerAddress> peers, Deadline deadline) override {
    return connector_.connect(peers, deadline);
  }
  Channel& channel(int peer) override { return *channels_[static_cast<size_t>(peer)]; }

  int progress() override;
  void sleep(std::chrono::nanoseconds longest, const Ready& ready) override {
    if (!ready || !ready()) engine_.sleep(longest);
  }
  void abort() override;

 private:
  explicit UcxTransport(const TransportContext& context);

  void end(std::chrono::nanoseconds patience);

  // Destroyed from the last to the first: channels before the worker that they use.
  Engine engine_;
  std::vector<std::unique_ptr<UcxChannel>> channels_;  // by rank; mine is null
  Connector connector_;
  bool aborted_ = false;
};

}  // namespace unisono
