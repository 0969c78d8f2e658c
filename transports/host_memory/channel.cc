// SPDX-License-Identifier: Apache-2.0
// Joins inbox and outbox, and decides what a failed peer means for posts.
#include "transports/host_memory/channel.h"

#include <fmt/format.h>

namespace unisono::host_memory {

HostChannel::HostChannel(Region& mine, int rank, int peer, std::unique_ptr<PeerRegion> theirs)
    : theirs_(std::move(theirs)),
      mine_(mine.pair(peer)),
      their_line_(theirs_->pair().line()),
      rank_(rank),
      peer_(peer),
      inbox_(mine, rank, peer, *theirs_),
      outbox_(mine, peer, *theirs_) {}

void HostChannel::post_send(const Key& key, const void* data, size_t bytes,
                            Completion& completion) {
  const Status& failure = broken_.ok() ? gone_ : broken_;
  if (!failure.ok()) return completion.done(completion, failure);
  outbox_.send(key, data, bytes, completion);
}

void HostChannel::post_recv(const Key& key, void* data, size_t bytes, Completion& completion) {
  receive(key, data, bytes, completion, false);
}

void HostChannel::post_view(const Key& key, size_t bytes, ViewCompletion& completion) {
  receive(key, nullptr, bytes, completion, true);
}

void HostChannel::receive(const Key& key, void* data, size_t bytes, Completion& completion,
                          bool is_view) {
  if (!broken_.ok()) return completion.done(completion, broken_);
  inbox_.receive(key, data, bytes, completion, is_view);
  if (!inbox_.mismatch().ok()) return break_off(inbox_.mismatch());
  if (!gone_.ok()) inbox_.fail(gone_);  // nothing more will come
}

void HostChannel::release(ViewCompletion& view) {
  if (broken_.code() != StatusCode::kAborted) inbox_.release(view);
}

int HostChannel::progress() {
  flags_ = their_line_.flags.load(std::memory_order_acquire);
  if (works_) {
    inbox_.progress();
    outbox_.progress();
    if (!inbox_.mismatch().ok()) {
      break_off(inbox_.mismatch());
    } else if ((flags_ & kMismatched) != 0) {
      break_off(mismatch_status(theirs_->pair().note(), rank_, peer_));
    }
  }
  return inbox_.take_ended() + outbox_.take_ended();
}

Status HostChannel::death() const {
  return Status(StatusCode::kPeerFailed, fmt::format("rank {} (pid {}) died", peer_, theirs_->pid));
}

void HostChannel::peer_is_gone(const Status& why) {
  if (!gone_.ok()) return;
  progress();  // takes what was published before
  gone_ = why;
  outbox_.fail(gone_);
  inbox_.fail(gone_);
}

void HostChannel::break_off(Status why) {
  works_ = false;
  broken_ = std::move(why);
  outbox_.fail(broken_);
  inbox_.fail(broken_);
}

void HostChannel::abort() {
  PairLine& line = mine_.line();
  line.flags.store(line.flags.load(std::memory_order_relaxed) | kLeft, std::memory_order_seq_cst);
  outbox_.ring_peer();
  break_off(Status(StatusCode::kAborted, "this communicator was aborted"));
}

}  // namespace unisono::host_memory
