// SPDX-License-Identifier: Apache-2.0
// One mutex guards everything; completions run outside it, in the thread of their rank.
#include "transports/simulated/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

namespace unisono {
namespace {

using Bytes = std::vector<std::byte>;

struct Message {
  int from;
  Key key;
  size_t bytes;
  const void* source;  // the sender's, until the send ends; null when copied
  Bytes copied;
  Completion* send;  // null when it has ended
  int delay;         // progress() calls of the receiver until it can be received
};

struct Receive {
  int from;
  Completion* completion;
};

struct End {
  Completion* completion;
  Status status;
};

struct Rank {
  std::list<Message> arrived;
  std::list<Receive> posted;
  std::vector<End> ends;  // for its thread to report
  std::list<Bytes> held;  // views
  bool stopped = false, aborted = false;
  std::string fate;              // "died", "left"
  std::map<int, int> notices;    // failed peer → progress() calls until I notice
  std::map<int, Status> broken;  // peer → why nothing works any more
  std::map<int, Status> gone;    // peer → why nothing new comes
  std::condition_variable changed;
};

class Network;

class SimulatedChannel final : public Channel {
 public:
  SimulatedChannel(Network& network, int rank, int peer)
      : network_(network), rank_(rank), peer_(peer) {}
  void post_send(const Key& key, const void* data, size_t bytes, Completion& completion) override;
  void post_recv(const Key& key, void* data, size_t bytes, Completion& completion) override;
  void post_view(const Key& key, size_t bytes, ViewCompletion& completion) override;
  void release(ViewCompletion& view) override;

 private:
  Network& network_;
  const int rank_, peer_;
};

class Network final : public SimulatedNetwork, public std::enable_shared_from_this<Network> {
 public:
  Network(int size, const SimulatedOptions& options)
      : options_(options), random_(options.seed), ranks_(static_cast<size_t>(size)) {}

  int size() const { return static_cast<int>(ranks_.size()); }
  std::unique_ptr<Transport> transport(int rank) override;
  void stop(int rank) override;
  void kill(int rank) override;
  void corrupt_length(int from, int to, uint32_t message) override;

  void send(int rank, int peer, Completion& completion);
  void receive(int rank, int peer, Completion& completion);
  void release(int rank, ViewCompletion& view);
  int progress(int rank);
  void sleep(int rank, std::chrono::nanoseconds longest);
  void abort(int rank);

 private:
  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  int any_delay() { return std::uniform_int_distribution(0, options_.max_delay)(random_); }
  void end(int rank, Completion& completion, Status status);
  bool meet(int rank, Message& message);
  void deliver(int rank, Message& message, Completion& post);
  void break_off(int rank, int peer, const Status& why);
  void lose(int rank, std::string fate);
  void notice(int rank, int peer);
  const Status* failure(const std::map<int, Status>& of, int peer) const {
    const auto found = of.find(peer);
    return found == of.end() ? nullptr : &found->second;
  }

  std::mutex mutex_;
  const SimulatedOptions options_;
  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  struct Corruption {
    int from, to;
    uint32_t message;
  };
  std::vector<Corruption> corruptions_;
};

class SimulatedTransport final : public Transport {
 public:
  SimulatedTransport(std::shared_ptr<Network> network, int rank)
      : network_(std::move(network)), rank_(rank) {
    for (int peer = 0; peer < network_->size(); ++peer)
      channels_.emplace_back(*network_, rank, peer);
  }
  ~SimulatedTransport() override { abort(); }

  std::string address() const override { return fmt::format("simulated {}", rank_); }
  Status reach(std::string_view peer_address) const override {
    return peer_address.starts_with("simulated ") ? Status()
                                                  : unsupported("simulated: another transport");
  }
  Status connect(std::span<const PeerAddress>, Deadline) override { return Status(); }
  Channel& channel(int peer) override { return channels_[static_cast<size_t>(peer)]; }
  int progress() override { return network_->progress(rank_); }
  void sleep(std::chrono::nanoseconds longest, const Ready& ready) override {
    if (!ready || !ready()) network_->sleep(rank_, longest);
  }
  void abort() override { network_->abort(rank_); }

 private:
  const std::shared_ptr<Network> network_;
  const int rank_;
  std::vector<SimulatedChannel> channels_;
};

void SimulatedChannel::post_send(const Key& key, const void* data, size_t bytes,
                                 Completion& completion) {
  completion.post = {.key = key, .data = const_cast<void*>(data), .bytes = bytes};
  network_.send(rank_, peer_, completion);
}

void SimulatedChannel::post_recv(const Key& key, void* data, size_t bytes, Completion& completion) {
  completion.post = {.key = key, .data = data, .bytes = bytes};
  network_.receive(rank_, peer_, completion);
}

void SimulatedChannel::post_view(const Key& key, size_t bytes, ViewCompletion& completion) {
  completion.post = {.key = key, .bytes = bytes, .is_view = true};
  network_.receive(rank_, peer_, completion);
}

void SimulatedChannel::release(ViewCompletion& view) {
  network_.release(rank_, view);
}

// ---- Network.

std::unique_ptr<Transport> Network::transport(int rank) {
  return std::make_unique<SimulatedTransport>(shared_from_this(), rank);
}

// All posts of a rank end in its next progress() or abort().
void Network::end(int rank, Completion& completion, Status status) {
  at(rank).ends.push_back({&completion, std::move(status)});
  at(rank).changed.notify_all();
}

void Network::send(int rank, int peer, Completion& completion) {
  const std::lock_guard lock(mutex_);
  Rank& me = at(rank);
  for (const Status* why : {failure(me.broken, peer), failure(me.gone, peer)})
    if (why != nullptr) return end(rank, completion, *why);
  const Completion::Post& post = completion.post;
  Message message{rank, post.key, post.bytes, post.data, {}, &completion, any_delay()};
  const auto corruption = std::ranges::find_if(corruptions_, [&](const Corruption& each) {
    return each.from == rank && each.to == peer && each.message == post.key.message;
  });
  if (corruption != corruptions_.end()) {
    ++message.bytes;
    corruptions_.erase(corruption);
  }
  if (!options_.rendezvous) {
    const auto* const data = static_cast<const std::byte*>(post.data);
    message.copied.assign(data, data + post.bytes);
    message.source = nullptr;
    message.send = nullptr;
    end(rank, completion, Status());
  }
  at(peer).arrived.push_back(std::move(message));
  at(peer).changed.notify_all();
}

void Network::receive(int rank, int peer, Completion& completion) {
  const std::lock_guard lock(mutex_);
  Rank& me = at(rank);
  if (const Status* why = failure(me.broken, peer)) return end(rank, completion, *why);
  const bool has_come = std::ranges::any_of(me.arrived, [&](const Message& message) {
    return message.from == peer && message.key.matches(completion.post.key);
  });
  const Status* const gone = failure(me.gone, peer);
  if (gone != nullptr && !has_come) return end(rank, completion, *gone);
  me.posted.push_back({peer, &completion});
}

void Network::release(int rank, ViewCompletion& view) {
  const std::lock_guard lock(mutex_);
  at(rank).held.remove_if([&](const Bytes& each) { return &each == view.handle; });
}

int Network::progress(int rank) {
  std::vector<End> ends;
  {
    const std::lock_guard lock(mutex_);
    Rank& me = at(rank);
    if (me.stopped) return 0;
    for (auto message = me.arrived.begin(); message != me.arrived.end();) {
      const bool ripe = message->delay == 0 || --message->delay == 0;
      message = ripe && meet(rank, *message) ? me.arrived.erase(message) : std::next(message);
    }
    std::vector<int> noticed;
    for (auto& [peer, calls] : me.notices)
      if (calls-- == 0) noticed.push_back(peer);
    for (const int peer : noticed) notice(rank, peer);
    ends.swap(me.ends);
  }
  for (const End& each : ends) each.completion->done(*each.completion, each.status);
  return static_cast<int>(ends.size());
}

// Whether a message has met its post.
bool Network::meet(int rank, Message& message) {
  Rank& me = at(rank);
  const auto post = std::ranges::find_if(me.posted, [&](const Receive& each) {
    return each.from == message.from && each.completion->post.key.matches(message.key);
  });
  if (post == me.posted.end()) return false;
  Completion& completion = *post->completion;
  me.posted.erase(post);
  const Completion::Post& expected = completion.post;
  if (message.bytes == expected.bytes && message.key.signature == expected.key.signature) {
    deliver(rank, message, completion);
    if (message.send != nullptr) end(message.from, *message.send, Status());
    return true;
  }
  const Status mismatch(
      StatusCode::kMismatch,
      fmt::format("message {} of call {}: rank {} sent {} bytes, rank {} expected {}{}",
                  expected.key.message, expected.key.sequence, message.from, message.bytes, rank,
                  expected.bytes, message.bytes == expected.bytes ? " of another call" : ""));
  end(rank, completion, mismatch);
  if (message.send != nullptr) end(message.from, *std::exchange(message.send, nullptr), mismatch);
  break_off(rank, message.from, mismatch);
  break_off(message.from, rank, mismatch);
  return true;
}

void Network::deliver(int rank, Message& message, Completion& post) {
  const void* const data = message.source != nullptr ? message.source : message.copied.data();
  void* target = post.post.data;
  if (post.post.is_view) {
    Bytes& held = at(rank).held.emplace_back(message.bytes);
    auto& view = static_cast<ViewCompletion&>(post);
    target = held.data();
    view.data = target;
    view.handle = &held;
  }
  if (message.bytes > 0) std::memcpy(target, data, message.bytes);
  end(rank, post, Status());
}

// Ends everything between a rank and a peer on the rank's side.
void Network::break_off(int rank, int peer, const Status& why) {
  at(rank).broken.try_emplace(peer, why);
  at(rank).posted.remove_if([&](const Receive& each) {
    if (each.from != peer) return false;
    end(rank, *each.completion, why);
    return true;
  });
  for (Message& message : at(peer).arrived)
    if (message.from == rank && message.send != nullptr) {
      end(rank, *std::exchange(message.send, nullptr), why);
      message.delay = -1;  // never received
    }
}

void Network::stop(int rank) {
  const std::lock_guard lock(mutex_);
  at(rank).stopped = true;
}

void Network::kill(int rank) {
  const std::lock_guard lock(mutex_);
  at(rank).stopped = true;
  lose(rank, "died");
}

// What a rank has not finished sending is lost; its peers will notice.
void Network::lose(int rank, std::string fate) {
  if (!at(rank).fate.empty()) return;
  at(rank).fate = std::move(fate);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank) continue;
    at(peer).arrived.remove_if(
        [&](const Message& message) { return message.from == rank && message.source != nullptr; });
    at(peer).notices[rank] = any_delay();
    at(peer).changed.notify_all();
  }
}

void Network::notice(int rank, int peer) {
  Rank& me = at(rank);
  me.notices.erase(peer);
  const Status why(StatusCode::kPeerFailed, fmt::format("rank {} {}", peer, at(peer).fate));
  me.gone.try_emplace(peer, why);
  for (Message& message : at(peer).arrived)
    if (message.from == rank && message.send != nullptr) {
      end(rank, *std::exchange(message.send, nullptr), why);
      message.source = nullptr;
    }
  me.posted.remove_if([&](const Receive& each) {
    if (each.from != peer) return false;
    const bool will_come = std::ranges::any_of(me.arrived, [&](const Message& message) {
      return message.from == peer && message.key.matches(each.completion->post.key);
    });
    if (!will_come) end(rank, *each.completion, why);
    return !will_come;
  });
}

void Network::corrupt_length(int from, int to, uint32_t message) {
  const std::lock_guard lock(mutex_);
  corruptions_.push_back({from, to, message});
}

void Network::sleep(int rank, std::chrono::nanoseconds longest) {
  std::unique_lock lock(mutex_);
  Rank& me = at(rank);
  // Delays pass in progress(), so a rank with any to wait for must not sleep.
  const bool has_work =
      !me.ends.empty() || !me.notices.empty() ||
      std::ranges::any_of(me.arrived, [](const Message& message) { return message.delay > 0; });
  if (longest > std::chrono::nanoseconds(0) && (!has_work || me.stopped))
    me.changed.wait_for(lock, longest);
}

void Network::abort(int rank) {
  std::vector<End> ends;
  {
    const std::lock_guard lock(mutex_);
    Rank& me = at(rank);
    if (std::exchange(me.aborted, true)) return;
    const Status why(StatusCode::kAborted, "this communicator was aborted");
    for (int peer = 0; peer < size(); ++peer) {
      me.broken.erase(peer);
      break_off(rank, peer, why);
    }
    lose(rank, "left");
    me.held.clear();
    ends.swap(me.ends);
  }
  for (const End& each : ends) each.completion->done(*each.completion, each.status);
}

}  // namespace

std::shared_ptr<SimulatedNetwork> SimulatedNetwork::create(int size,
                                                           const SimulatedOptions& options) {
  return std::make_shared<Network>(size, options);
}

}  // namespace unisono
