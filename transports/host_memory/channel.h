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
  // Whether the peer has aborted or closed, and (has_left) posts have not yet been ended for it.
  bool said_goodbye() const {
    return (their_line_.flags.load(std::memory_order_acquire) & kLeft) != 0;
  }
  bool has_left() const { return works_ && gone_.ok() && said_goodbye(); }
  // What the peer has published can still be received; all other posts end with `why`.
  void peer_is_gone(const Status& why);
  Status death() const;  // "rank 3 (pid 1234) died"
  void abort();

 private:
  void receive(const Key& key, void* data, size_t bytes, Completion& completion, bool is_view);
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
