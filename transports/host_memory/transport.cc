// SPDX-License-Identifier: Apache-2.0
// Connects the ranks of a host and turns their channels.
#include "transports/host_memory/transport.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cassert>
#include <optional>
#include <vector>

#include "transports/host_memory/channel.h"
#include "transports/host_memory/doorbell.h"
#include "transports/host_memory/exchange.h"
#include "transports/host_memory/shared.h"

namespace unisono {
namespace host_memory {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Death rings no bell, so nobody sleeps longer than this without looking; and busy ranks, whose
// sleeps are cut short by news, look at every so many sleeps.
constexpr nanoseconds kLongestSleep = milliseconds(100);
constexpr int kSleepsPerLook = 16;

class HostMemory final : public Transport {
 public:
  HostMemory(const TransportContext& context, const Address& address, Handshake handshake)
      : identity_{context.rank, context.job_token, address},
        staging_bytes_(static_cast<uint64_t>(context.settings->integer(Setting::kStagingBytes))),
        mapped_bytes_(context.mapped_bytes),
        handshake_(std::move(handshake)),
        channels_(static_cast<size_t>(context.size)) {}

  ~HostMemory() override { abort(); }

  std::string address() const override { return identity_.address.bytes(); }

  Status reach(std::string_view peer_address) const override {
    const Result<Address> peer = Address::parse(peer_address);
    return peer.ok() ? identity_.address.reaches(*peer) : peer.status();
  }

  Status connect(std::span<const PeerAddress> peers, Deadline deadline) override;

  Channel& channel(int peer) override {
    assert(channels_[static_cast<size_t>(peer)] != nullptr);
    return *channels_[static_cast<size_t>(peer)];
  }

  int progress() override {
    int ended = 0;
    for (HostChannel* const channel : connected_)
      if (channel->has_news()) {
        if (channel->has_left()) channel->peer_is_gone(departure(*channel));
        ended += channel->progress();
      }
    return ended;
  }

  std::span<std::byte* const> mapped_blocks() const override { return mapped_; }
  bool one_process() const override { return !mapped_.empty() && processes_.empty(); }
  Result<std::unique_ptr<SharedMemory>> share(size_t bytes) override {
    if (mapped_.empty()) return std::unique_ptr<SharedMemory>();
    return create_shared(identity_.rank, static_cast<int>(channels_.size()), identity_.job_token, bytes);
  }
  void wake_peers() override {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (std::atomic<uint32_t>* const asleep : doorbells_) ring(*asleep);
  }
  void sleep(nanoseconds longest, const Ready& ready) override;
  void abort() override;

 private:
  void open(int peer, std::unique_ptr<PeerRegion> region);
  bool has_news() const {
    return std::ranges::any_of(connected_,
                               [](const HostChannel* each) { return each->has_news(); });
  }
  void look_for_dead();
  Status departure(const HostChannel& channel);

  const Identity identity_;
  const uint64_t staging_bytes_;
  const size_t mapped_bytes_;
  std::optional<Handshake> handshake_;                  // until connected
  std::shared_ptr<Region> region_;                      // from connect()
  std::vector<std::unique_ptr<HostChannel>> channels_;  // by rank; null where there is none
  std::vector<HostChannel*> connected_;
  std::vector<std::byte*> mapped_;  // by rank
  std::vector<std::atomic<uint32_t>*> doorbells_;  // of the connected
  std::vector<pollfd> processes_;  // pidfds of the living, and whose they are
  std::vector<HostChannel*> process_channels_;
  int sleeps_until_look_ = 0;
  Status first_death_;
};

Status HostMemory::connect(std::span<const PeerAddress> peers, Deadline deadline) {
  assert(region_ == nullptr && handshake_.has_value());
  std::vector<int> ranks;
  for (const PeerAddress& each : peers) ranks.push_back(each.rank);
  std::ranges::sort(ranks);
  Result<std::shared_ptr<Region>> region = Region::create(ranks, staging_bytes_, mapped_bytes_);
  if (!region.ok()) {
    (void)exchange_regions(identity_, *handshake_, nullptr, peers, deadline).ok();
    return region.status();
  }
  region_ = region.take();
  if (mapped_bytes_ > 0 && peers.size() + 1 == channels_.size()) {
    mapped_.resize(channels_.size());
    mapped_[static_cast<size_t>(identity_.rank)] = region_->mapped_block();
  }
  auto found = exchange_regions(identity_, *handshake_, region_, peers, deadline);
  if (!found.ok()) return found.status();
  for (auto& [peer, peer_region] : *found) open(peer, std::move(peer_region));
  handshake_.reset();
  return Status();
}

void HostMemory::open(int peer, std::unique_ptr<PeerRegion> region) {
  const int process = region->process.get();
  doorbells_.push_back(&region->header().asleep);
  if (!mapped_.empty()) mapped_[static_cast<size_t>(peer)] = region->mapped_block();
  auto channel = std::make_unique<HostChannel>(*region_, identity_.rank, peer, std::move(region));
  connected_.push_back(channel.get());
  if (process >= 0) {
    processes_.push_back({process, POLLIN, 0});
    process_channels_.push_back(channel.get());
  }
  channels_[static_cast<size_t>(peer)] = std::move(channel);
}

void HostMemory::sleep(nanoseconds longest, const Ready& ready) {
  if (region_ == nullptr) return;
  if (longest <= nanoseconds(0) || --sleeps_until_look_ <= 0) {
    look_for_dead();
    sleeps_until_look_ = kSleepsPerLook;
    if (longest <= nanoseconds(0)) return;
  }
  std::atomic<uint32_t>& asleep = region_->header().asleep;
  asleep.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!has_news() && !(ready && ready())) {
    futex_wait(asleep, 1, std::min(longest, kLongestSleep));
    if (asleep.load(std::memory_order_relaxed) == 1) sleeps_until_look_ = 0;  // nobody rang
  }
  asleep.store(0, std::memory_order_relaxed);
}

void HostMemory::look_for_dead() {
  if (processes_.empty() || poll(processes_.data(), processes_.size(), 0) <= 0) return;
  std::vector<HostChannel*> ended;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].revents == 0) continue;
    processes_[i].fd = -1;  // poll() passes over it from now on
    ended.push_back(process_channels_[i]);
    if (!ended.back()->said_goodbye() && first_death_.ok()) first_death_ = ended.back()->death();
  }
  for (HostChannel* const each : ended)
    each->peer_is_gone(each->said_goodbye() ? departure(*each) : each->death());
}

// Why a peer has left: most often because another has died, and then that is the news.
Status HostMemory::departure(const HostChannel& channel) {
  look_for_dead();
  if (!first_death_.ok()) return first_death_;
  return Status(StatusCode::kPeerFailed, fmt::format("rank {} left", channel.peer()));
}

void HostMemory::abort() {
  handshake_.reset();
  for (HostChannel* const channel : connected_) channel->abort();
}

}  // namespace
}  // namespace host_memory

Result<std::unique_ptr<Transport>> create_host_memory(const TransportContext& context) {
  const Result<host_memory::Address> address = host_memory::Address::mine();
  if (!address.ok()) return address.status();
  Result<host_memory::Handshake> handshake = host_memory::Handshake::listen(*address);
  if (!handshake.ok()) return handshake.status();
  return std::unique_ptr<Transport>(
      std::make_unique<host_memory::HostMemory>(context, *address, handshake.take()));
}

}  // namespace unisono
