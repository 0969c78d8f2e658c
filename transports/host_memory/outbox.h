// SPDX-License-Identifier: Apache-2.0
// Outbox: my messages to one peer. Writes my pair block for that peer.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "transports/host_memory/posts.h"
#include "transports/host_memory/region.h"

namespace unisono::host_memory {

// Messages appear in the order of posting, copied, and end at once where there is room; long ones go in fragments.
class Outbox {
 public:
  Outbox(Region& mine, int peer, const PeerRegion& theirs);

  void send(const Key& key, const void* data, size_t bytes, Completion& completion);

  // Whether the peer has done something that I wait for. Reads the peer's pair line only.
  bool has_news(const PairLine& theirs) const {
    return !waiting_.empty() && theirs.freed.load(std::memory_order_seq_cst) != freed_;
  }
  void progress();

  // Ends every send. The peer learns nothing from this.
  void fail(const Status& status);

  int take_ended() { return std::exchange(ended_, 0); }
  void ring_peer();

 private:
  bool place(Completion::Post& post);  // the rest of it; whether all of it has found room
  bool place_fragment(Completion::Post& post, size_t bytes);
  bool has_slot();                   // also takes note of what the peer has freed
  std::byte* reserve(size_t bytes);  // null: no room now
  void publish();
  void end(Completion& completion, const Status& status);

  const Pair mine_;
  const PairLine& theirs_;
  std::atomic<uint32_t>& peer_asleep_;
  const size_t whole_bytes_, fragment_bytes_;  // up to this in one piece; else in pieces of that

  Posts waiting_;
  uint64_t published_ = 0, freed_ = 0;
  uint64_t head_ = 0, tail_ = 0;  // of the data in use: positions that never wrap
  std::vector<uint64_t> ends_;    // per slot: head_ after its payload
  int ended_ = 0;
};

}  // namespace unisono::host_memory
