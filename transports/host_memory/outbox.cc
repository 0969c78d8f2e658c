// SPDX-License-Identifier: Apache-2.0
// Places messages into the ring of a pair.
#include "transports/host_memory/outbox.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "transports/host_memory/doorbell.h"

namespace unisono::host_memory {
namespace {

size_t round_to_line(size_t bytes) {
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

}  // namespace

Outbox::Outbox(Region& mine, int peer, const PeerRegion& theirs)
    : mine_(mine.pair(peer)),
      theirs_(theirs.pair().line()),
      peer_asleep_(theirs.header().asleep),
      whole_bytes_(mine_.data_bytes / 2 / kLineBytes * kLineBytes),
      fragment_bytes_(std::clamp<size_t>(mine_.data_bytes / 4 / kLineBytes * kLineBytes, kLineBytes,
                                         128 * 1024)),
      ends_(mine_.slot_count) {}

void Outbox::send(const Key& key, const void* data, size_t bytes, Completion& completion) {
  completion.post = {.key = key, .data = const_cast<void*>(data), .bytes = bytes};
  if (waiting_.empty() && place(completion.post)) return completion.done(completion, Status());
  waiting_.push(completion);
  if (mine_.line().starved.load(std::memory_order_relaxed) == 0)
    mine_.line().starved.store(1, std::memory_order_seq_cst);
  ring_peer();  // room may depend on the peer's setting messages aside
}

void Outbox::progress() {
  while (!waiting_.empty()) {
    Completion& completion = *waiting_.first();
    if (!place(completion.post)) return;
    waiting_.pop();
    if (waiting_.empty()) mine_.line().starved.store(0, std::memory_order_relaxed);
    end(completion, Status());
  }
}

bool Outbox::place(Completion::Post& post) {
  do {
    const size_t left = post.bytes - post.moved;
    if (!place_fragment(post, post.bytes <= whole_bytes_ ? left : std::min(left, fragment_bytes_)))
      return false;
  } while (post.moved < post.bytes);
  return true;
}

bool Outbox::place_fragment(Completion::Post& post, size_t bytes) {
  if (!has_slot()) return false;
  Slot& slot = mine_.slot(published_);
  std::byte* const target = bytes <= Slot::kInlineBytes ? slot.small : reserve(bytes);
  if (target == nullptr) return false;
  slot.key = post.key;
  slot.total = post.bytes;
  slot.begin = post.moved;
  slot.where = static_cast<uint64_t>(target - mine_.block);
  slot.bytes = bytes;
  if (bytes > 0) std::memcpy(target, static_cast<const std::byte*>(post.data) + post.moved, bytes);
  post.moved += bytes;
  ends_[published_ & (mine_.slot_count - 1)] = head_;
  publish();
  return true;
}

bool Outbox::has_slot() {
  const uint64_t freed = theirs_.freed.load(std::memory_order_acquire);
  if (freed != freed_) {
    freed_ = freed;
    tail_ = ends_[(freed - 1) & (mine_.slot_count - 1)];
    if (freed_ == published_) head_ = tail_ = 0;  // an idle pair uses the same, warm lines again
  }
  return published_ - freed_ < mine_.slot_count;
}

std::byte* Outbox::reserve(size_t bytes) {
  const size_t need = round_to_line(bytes);
  const uint64_t at = head_ % mine_.data_bytes;
  const uint64_t skip =
      at + need > mine_.data_bytes ? mine_.data_bytes - at : 0;  // no payload wraps
  if (head_ + skip + need - tail_ > mine_.data_bytes) return nullptr;
  head_ += skip + need;
  return mine_.block + mine_.data_offset() + (skip == 0 ? at : 0);
}

void Outbox::publish() {
  mine_.line().published.store(++published_, std::memory_order_seq_cst);
  ring_peer();
}

void Outbox::ring_peer() {
  ring(peer_asleep_);
}

void Outbox::fail(const Status& status) {
  while (!waiting_.empty()) {
    Completion& completion = *waiting_.first();
    waiting_.pop();
    end(completion, status);
  }
}

void Outbox::end(Completion& completion, const Status& status) {
  ++ended_;
  completion.done(completion, status);
}

}  // namespace unisono::host_memory
