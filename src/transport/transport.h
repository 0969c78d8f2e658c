// SPDX-License-Identifier: Apache-2.0
// The contract of a transport: reliable messages between the ranks of one communicator.
//
// A Transport belongs to one communicator of one rank and is used by one thread at a time. It never
// blocks except in connect(), sleep() and abort(), each bounded.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/settings.h"
#include "base/status.h"

namespace unisono {

// Messages of an ordered pair of ranks meet by key, never by the order of posting.
// The signature is not part of the match: it is a hash of the call (count, type, op, …), and where the two
// sides differ, both posts end with kMismatch.
struct Key {
  uint32_t sequence;   // number of the call in its communicator
  uint32_t message;    // number of the message of this ordered pair in the schedule
  uint32_t slice;      // slice of the vector
  uint32_t signature;  // hash of the call
  bool matches(const Key& other) const {
    return sequence == other.sequence && message == other.message && slice == other.slice;
  }
};

// What a post reports when it ends. Owned by the poster, and must stay in place until then.
// `done` is called once, by the thread that posts or progresses, possibly before the post returns.
// It may post again, but must not call progress().
struct Completion {
  void (*done)(Completion& self, Status status) = nullptr;

  // The transport's own from the post until `done`, so that a post needs no allocation.
  struct Post {
    Completion* next = nullptr;
    Key key{};
    void* data = nullptr;
    size_t bytes = 0;
    size_t moved = 0;  // bytes already on their way
    bool is_view = false;
  };
  Post post = {};
};

// A message read in place, from a successful `done` until release(). progress() may move it: `data` is where it
// lies now.
struct ViewCompletion : Completion {
  const void* data = nullptr;
  void* handle = nullptr;  // the channel's own
};

// The path to one peer. Reliable; never blocks.
class Channel {
 public:
  virtual ~Channel() = default;

  // `data` must stay valid and unchanged until `done`. A send may end before the peer has received, and
  // ends once the peer has posted its receive or view and both sides progress: it waits for no release().
  virtual void post_send(const Key& key, const void* data, size_t bytes, Completion& completion) = 0;
  // Straight into `data`. A message of another length ends both posts with kMismatch.
  virtual void post_recv(const Key& key, void* data, size_t bytes, Completion& completion) = 0;
  // The channel owns the landing memory: the peer's staging, or a buffer. Any number may be held at once.
  virtual void post_view(const Key& key, size_t bytes, ViewCompletion& completion) = 0;
  virtual void release(ViewCompletion& view) = 0;
};

// What a peer needs to reach a transport of mine, exchanged through the bootstrap.
struct PeerAddress {
  int rank;
  std::string address;  // bytes of Transport::address() of that rank
};

// Zeroed memory of which every rank owns a block that all others map. Its end is local: what peers map stays
// theirs. `address` and `connect` are as a transport's.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  virtual std::string address() const = 0;
  // Backs my block by the memory next to this thread, so that no access can fault. kOutOfResources with need and
  // have; then no rank connects.
  virtual Status reserve() = 0;
  // Collective over all ranks, once.
  virtual Status connect(std::span<const PeerAddress> peers, Deadline deadline) = 0;
  virtual std::span<std::byte* const> blocks() const = 0;  // by rank, mine included
};

class Transport {
 public:
  using Ready = std::function<bool()>;

  virtual ~Transport() = default;  // like abort(), then frees

  // Opaque bytes for peers.
  virtual std::string address() const = 0;
  // Whether a peer of that address can be reached; the reason if not. No communication.
  virtual Status reach(std::string_view peer_address) const = 0;
  // Collective over me and `peers`. Errors name the peer that is missing.
  virtual Status connect(std::span<const PeerAddress> peers, Deadline deadline) = 0;
  // Precondition: connected to that rank. Owned by the transport.
  virtual Channel& channel(int peer) = 0;

  // Memory of which every rank owns a block that all others map, of TransportContext::mapped_bytes each,
  // zeroed when connected; by rank, mine included. Empty where the transport maps none. A peer's block
  // stays readable after its death.
  virtual std::span<std::byte* const> mapped_blocks() const { return {}; }
  // Whether all ranks are threads of this process, so that each maps whatever another does.
  virtual bool one_process() const { return false; }
  // Memory of `bytes` for each rank, in the same manner: see SharedMemory. Null where the transport maps none.
  virtual Result<std::unique_ptr<SharedMemory>> share(size_t bytes) {
    static_cast<void>(bytes);
    return std::unique_ptr<SharedMemory>();
  }
  // Wakes every peer that sleeps. After any store to my block: it fences itself.
  virtual void wake_peers() {}

  // Moves messages; returns how many posts have ended. A failed peer ends every post to it with
  // kPeerFailed and its name.
  virtual int progress() = 0;
  // Sleeps in the kernel until something may have arrived, at most `longest`, but not when `ready` (if any)
  // says that it has; `ready` is asked once after peers can see that I am about to sleep. Also the place where
  // dead peers are noticed, so a waiter calls it from time to time even when it does not want to sleep
  // (longest = 0).
  virtual void sleep(std::chrono::nanoseconds longest, const Ready& ready = {}) = 0;
  // Ends all posts with kAborted. After it returns no peer reads or writes memory handed to a post, and
  // views that I hold must not be read (release() does nothing).
  // Local and bounded: does not wait for a peer's cooperation.
  virtual void abort() = 0;
};

// What a transport is created from.
struct TransportContext {
  int rank;
  int size;
  std::string job_token;     // 16 random bytes, the same on all ranks of the communicator
  const Settings* settings;  // outlives the transport
  size_t mapped_bytes = 0;   // of the block that I want to share (mapped_blocks)
};

// A row of the table in transports/registry.cc.
struct TransportRow {
  std::string_view name;
  std::string_view summary;
  Result<std::unique_ptr<Transport>> (*create)(const TransportContext& context);
  bool maps_memory = false;  // of its peers: a message costs no more than a copy
};

}  // namespace unisono
