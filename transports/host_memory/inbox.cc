// SPDX-License-Identifier: Apache-2.0
// Takes messages out of the ring of a pair and hands them to posts.
#include "transports/host_memory/inbox.h"

#include <fmt/format.h>

#include <cassert>
#include <cstring>

#include "transports/host_memory/doorbell.h"

namespace unisono::host_memory {
namespace {

void copy_bytes(void* target, const void* source, size_t bytes) {
  if (bytes > 0) std::memcpy(target, source, bytes);  // null is allowed for no bytes
}

}  // namespace

Status mismatch_status(const MismatchNote& note, int sender, int receiver) {
  const std::string message =
      fmt::format("message {} of call {}", note.key.message, note.key.sequence);
  if (note.sent_bytes != note.expected_bytes)
    return Status(StatusCode::kMismatch,
                  fmt::format("{}: rank {} sent {} bytes, rank {} expected {}", message, sender,
                              note.sent_bytes, receiver, note.expected_bytes));
  return Status(StatusCode::kMismatch,
                fmt::format("{}: rank {} sent it in call signature {:08x}, rank {} expected {:08x}",
                            message, sender, note.sent_signature, receiver, note.key.signature));
}

Inbox::Inbox(Region& mine, int rank, int peer, const PeerRegion& theirs)
    : mine_(mine.pair(peer)),
      theirs_(theirs.pair()),
      peer_asleep_(theirs.header().asleep),
      rank_(rank),
      peer_(peer),
      entries_(theirs_.slot_count) {}

void Inbox::receive(const Key& key, void* data, size_t bytes, Completion& completion,
                    bool is_view) {
  completion.post = {.key = key, .data = data, .bytes = bytes, .is_view = is_view};
  if (!match_arrived(completion)) posted_.push(completion);
}

void Inbox::release(ViewCompletion& view) {
  auto& holder = *static_cast<Holder*>(view.handle);
  assert(holder.state == State::kHeld && holder.view == &view);
  if (!holder.in_ring) return erase(static_cast<Aside&>(holder));
  holder.state = State::kDone;
  free_done();
}

void Inbox::progress() {
  const uint64_t published = theirs_.line().published.load(std::memory_order_acquire);
  while (seen_ < published && mismatch_.ok()) arrive(seen_++);
  if (theirs_.line().starved.load(std::memory_order_acquire) != 0 && must_make_room() &&
      ++starved_turns_ > kPatience)
    make_room();
}

void Inbox::arrive(uint64_t index) {
  const Slot& arrived = slot(index);
  entry(index).state = State::kUnmatched;
  ++unmatched_;
  if (arrived.begin > 0) {
    if (gathering_ == nullptr) return;
    Aside& aside = *gathering_;
    absorb(index, aside);
    free_done();
    if (!aside.complete()) return;
    gathering_ = nullptr;
    if (aside.waiting != nullptr) hand_over(aside);
    return;
  }
  Completion* const post =
      posted_.take([&](const Completion& posted) { return posted.post.key.matches(arrived.key); });
  if (post != nullptr) deliver(index, *post);
}

// Finds a message for a new post among those that have come before it.
bool Inbox::match_arrived(Completion& post) {
  for (Aside& aside : asides_) {
    if (aside.state != State::kUnmatched || aside.waiting != nullptr ||
        !aside.key.matches(post.post.key))
      continue;
    if (!agrees(aside.key, aside.total, post)) return true;
    aside.waiting = &post;
    if (aside.complete()) hand_over(aside);
    return true;
  }
  for (uint64_t index = freed_; unmatched_ > 0 && index != seen_; ++index) {
    if (entry(index).state != State::kUnmatched || slot(index).begin > 0 ||
        !slot(index).key.matches(post.post.key))
      continue;
    deliver(index, post);
    return true;
  }
  return false;
}

void Inbox::deliver(uint64_t index, Completion& post) {
  const Slot& arrived = slot(index);
  if (!agrees(arrived.key, arrived.total, post)) return;
  if (arrived.bytes < arrived.total) {
    Aside& aside = gather(index, &post);
    if (aside.complete()) hand_over(aside);
    return;
  }
  const std::byte* const payload = theirs_.block + arrived.where;
  if (post.post.is_view) {
    --unmatched_;
    return hold(entry(index), payload, post);
  }
  copy_bytes(post.post.data, payload, arrived.bytes);
  mark_done(index);
  free_done();
  end(post, Status());
}

void Inbox::hold(Holder& holder, const void* data, Completion& post) {
  auto& view = static_cast<ViewCompletion&>(post);
  holder.state = State::kHeld;
  holder.view = &view;
  view.data = data;
  view.handle = &holder;
  end(view, Status());
}

// Begins to put a fragmented message together from its first slot, and takes what has come of it.
// The memory is the receiver's own when it is known.
Inbox::Aside& Inbox::gather(uint64_t index, Completion* post) {
  const Slot& first = slot(index);
  Aside& aside = new_aside(first.key, first.total);
  aside.waiting = post;
  if (post != nullptr && !post->post.is_view) {
    aside.target = static_cast<std::byte*>(post->post.data);
  } else {
    aside.memory = std::make_unique_for_overwrite<std::byte[]>(aside.total);
    aside.target = aside.memory.get();
  }
  for (; index != seen_ && !aside.complete(); ++index) absorb(index, aside);
  free_done();
  if (!aside.complete()) {
    assert(gathering_ == nullptr && "fragments of two messages never mix");
    gathering_ = &aside;
  }
  return aside;
}

void Inbox::absorb(uint64_t index, Aside& aside) {
  const Slot& fragment = slot(index);
  copy_bytes(aside.target + fragment.begin, theirs_.block + fragment.where, fragment.bytes);
  aside.filled += fragment.bytes;
  mark_done(index);
}

void Inbox::hand_over(Aside& aside) {
  Completion& post = *aside.waiting;
  if (post.post.is_view) return hold(aside, aside.memory.get(), post);
  if (aside.memory != nullptr) copy_bytes(post.post.data, aside.memory.get(), aside.total);
  erase(aside);
  end(post, Status());
}

// Whether a message is what the post expects; if not, both sides learn it.
bool Inbox::agrees(const Key& sent, size_t sent_bytes, const Completion& post) {
  const Completion::Post& expected = post.post;
  if (sent.signature == expected.key.signature && sent_bytes == expected.bytes) return true;
  MismatchNote& note = mine_.note();
  note = {expected.key, sent.signature, sent_bytes, expected.bytes};
  mismatch_ = mismatch_status(note, peer_, rank_);
  PairLine& line = mine_.line();
  line.flags.store(line.flags.load(std::memory_order_relaxed) | kMismatched,
                   std::memory_order_seq_cst);
  ring(peer_asleep_);
  end(const_cast<Completion&>(post), mismatch_);
  return false;
}

// Takes everything out of the ring, so that the peer can publish what I wait for.
void Inbox::make_room() {
  for (uint64_t index = freed_; index != seen_; ++index) {
    const Slot& arrived = slot(index);
    Holder& noted = entry(index);
    if (noted.state == State::kDone) continue;
    if (noted.state == State::kUnmatched && arrived.bytes < arrived.total) {
      gather(index, nullptr);  // and its neighbours
      continue;
    }
    Aside& aside = new_aside(arrived.key, arrived.total);
    aside.memory = std::make_unique_for_overwrite<std::byte[]>(aside.total);
    copy_bytes(aside.memory.get(), theirs_.block + arrived.where, aside.total);
    aside.filled = aside.total;
    if (noted.state == State::kHeld) {  // nobody reads it during progress()
      aside.state = State::kHeld;
      aside.view = noted.view;
      aside.view->data = aside.memory.get();
      aside.view->handle = static_cast<Holder*>(&aside);
      noted.state = State::kDone;
    } else {
      mark_done(index);
    }
  }
  free_done();
}

void Inbox::mark_done(uint64_t index) {
  assert(entry(index).state == State::kUnmatched);
  entry(index).state = State::kDone;
  --unmatched_;
}

void Inbox::free_done() {
  const uint64_t before = freed_;
  while (freed_ != seen_ && entry(freed_).state == State::kDone) ++freed_;
  if (freed_ == before) return;
  starved_turns_ = 0;
  mine_.line().freed.store(freed_, std::memory_order_seq_cst);
  if (theirs_.line().starved.load(std::memory_order_seq_cst) != 0) ring(peer_asleep_);
}

void Inbox::fail(const Status& status) {
  while (!posted_.empty()) {
    Completion& post = *posted_.first();
    posted_.pop();
    end(post, status);
  }
  // At most one message is half here; it stays so.
  if (gathering_ != nullptr && gathering_->waiting != nullptr) {
    Completion& post = *std::exchange(gathering_->waiting, nullptr);
    erase(*std::exchange(gathering_, nullptr));
    end(post, status);
  }
}

Inbox::Aside& Inbox::new_aside(const Key& key, size_t total) {
  Aside& aside = asides_.emplace_back();
  aside.in_ring = false;
  aside.state = State::kUnmatched;
  aside.key = key;
  aside.total = total;
  return aside;
}

void Inbox::erase(Aside& aside) {
  asides_.remove_if([&](const Aside& each) { return &each == &aside; });
}

void Inbox::end(Completion& completion, const Status& status) {
  ++ended_;
  completion.done(completion, status);
}

}  // namespace unisono::host_memory
