// SPDX-License-Identifier: Apache-2.0
// Inbox: the messages of one peer to me. Reads the peer's pair block for me.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "transports/host_memory/posts.h"
#include "transports/host_memory/region.h"

namespace unisono::host_memory {

// What a note says, in one line.
Status mismatch_status(const MismatchNote& note, int sender, int receiver);

// Matches messages to posts by key. Room in the ring is freed in order, so when the peer waits for
// room and I wait for something that it has not yet published, what lies in the ring is set aside
// in private memory: whatever is posted gets through, in any order, and views may be held as long
// as one likes.
class Inbox {
 public:
  Inbox(Region& mine, int rank, int peer, const PeerRegion& theirs);

  // `data` is null for a view.
  void receive(const Key& key, void* data, size_t bytes, Completion& completion, bool is_view);
  void release(ViewCompletion& view);

  bool has_news(const PairLine& theirs) const {
    return theirs.published.load(std::memory_order_seq_cst) != seen_ ||
           (theirs.starved.load(std::memory_order_seq_cst) != 0 && must_make_room());
  }
  void progress();

  // Ends every post. Messages that have come stay.
  void fail(const Status& status);

  // Set once a message was met by a post that expected another one.
  const Status& mismatch() const { return mismatch_; }
  int take_ended() { return std::exchange(ended_, 0); }

 private:
  enum class State : uint8_t { kUnmatched, kHeld, kDone };
  // What the handle of a view points to.
  struct Holder {
    bool in_ring = true;
    State state = State::kDone;
    ViewCompletion* view = nullptr;  // kHeld
  };
  struct Aside : Holder {  // a message that has left the ring, or is leaving it fragment by fragment
    Key key;
    size_t total = 0, filled = 0;
    std::unique_ptr<std::byte[]> memory;
    std::byte* target = nullptr;    // where fragments go: `memory`, or the receiver's own
    Completion* waiting = nullptr;  // the post that gets it once it is complete
    bool complete() const { return filled == total; }
  };

  Holder& entry(uint64_t index) { return entries_[index & (theirs_.slot_count - 1)]; }
  const Slot& slot(uint64_t index) const { return theirs_.slot(index); }

  void arrive(uint64_t index);
  bool match_arrived(Completion& post);
  void deliver(uint64_t index, Completion& post);
  void hold(Holder& holder, const void* data, Completion& post);
  Aside& gather(uint64_t index, Completion* post);
  void absorb(uint64_t index, Aside& aside);
  void hand_over(Aside& aside);
  bool agrees(const Key& sent, size_t sent_bytes, const Completion& post);

  // Turns that a peer is kept waiting before messages are copied out of its way: most often the
  // posts that take them, or the release of the views, are about to come.
  static constexpr int kPatience = 100;

  bool must_make_room() const {
    return freed_ != seen_ &&
           (!posted_.empty() || (gathering_ != nullptr && gathering_->waiting != nullptr));
  }
  void make_room();
  void mark_done(uint64_t index);
  void free_done();
  Aside& new_aside(const Key& key, size_t total);
  void erase(Aside& aside);
  void end(Completion& completion, const Status& status);

  const Pair mine_;  // I write `freed` and the mismatch
  const Pair theirs_;
  std::atomic<uint32_t>& peer_asleep_;
  const int rank_, peer_;

  Posts posted_;
  std::vector<Holder> entries_;  // my notes about the peer's slots
  std::list<Aside> asides_;      // unmatched, waiting for fragments, or held
  Aside* gathering_ = nullptr;   // the one whose fragments are coming
  uint64_t seen_ = 0, freed_ = 0;
  uint32_t unmatched_ = 0;  // in the ring
  int starved_turns_ = 0;   // since the peer began to wait for room
  Status mismatch_;
  int ended_ = 0;
};

}  // namespace unisono::host_memory
