// SPDX-License-Identifier: Apache-2.0
// HostChannel: both directions of a pair of ranks in shared memory.
#pragma once

#include <memory>

#include "transports/host_memory/inbox.h"
#include "transports/host_memory/outbox.h"

namespace unisono::host_memory {

class HostChannel final : public Channel {
 public:
  HostChannel(Region& mine, int rank, int peer, std::unique_ptr<PeerRegion> theirs);

  void post_send(const Key& key, const void* data, size_t bytes, Completion& completion) override;
  void post_recv(const Key& key, void* data, size_t bytes, Completion& completion) override;
  void post_view(const Key& key, size_t bytes, ViewCompletion& completion) override;
  void release(ViewCompletion& view) override;

  // Whether progress() has something to do; reads one line of shared memory.
  bool has_news() const {
    return works_ && (their_line_.flags.load(std::memory_order_seq_cst) != flags_ ||
                      inbox_.has_news(their_line_) || outbox_.has_news(their_line_));
  }
  int progress();  // returns how many posts have ended

  int peer() const { return peer_; }
  bool peer_gone() const { return !gone_.ok(); }
  // The peer's process has ended: what it has published can still be received.
  void peer_died();
  void abort();

 private:
  void receive(const Key& key, void* data, size_t bytes, Completion& completion, bool is_view);
  void peer_is_gone(Status why);
  void break_off(Status why);

  const std::unique_ptr<PeerRegion> theirs_;
  const Pair mine_;
  const PairLine& their_line_;
  const int rank_, peer_;
  Inbox inbox_;
  Outbox outbox_;
  uint32_t flags_ = 0;  // the peer's, as seen so far
  Status gone_;         // the peer has left or died; messages of before may still be received
  Status broken_;       // nothing works any more: mismatch or abort
  bool works_ = true;   // broken_.ok()
};

}  // namespace unisono::host_memory
