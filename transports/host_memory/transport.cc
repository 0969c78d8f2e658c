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
#include "transports/host_memory/handshake.h"

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
      : rank_(context.rank),
        job_token_(context.job_token),
        staging_bytes_(static_cast<uint64_t>(context.settings->integer(Setting::kStagingBytes))),
        mapped_bytes_(context.mapped_bytes),
        address_(address),
        handshake_(std::move(handshake)),
        channels_(static_cast<size_t>(context.size)) {}

  ~HostMemory() override { abort(); }

  std::string address() const override { return address_.bytes(); }

  Status reach(std::string_view peer_address) const override {
    const Result<Address> peer = Address::parse(peer_address);
    return peer.ok() ? address_.reaches(*peer) : peer.status();
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
  void wake_peers() override {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (std::atomic<uint32_t>* const asleep : doorbells_) ring(*asleep);
  }
  void sleep(nanoseconds longest, const Ready& ready) override;
  void abort() override;

 private:
  void open(int peer, std::unique_ptr<PeerRegion> region);
  Status connect_threads(const std::map<int, Address>& peers, Deadline deadline);
  bool has_news() const {
    return std::ranges::any_of(connected_,
                               [](const HostChannel* each) { return each->has_news(); });
  }
  void look_for_dead();
  Status departure(const HostChannel& channel);

  const int rank_;
  const std::string job_token_;
  const uint64_t staging_bytes_;
  const size_t mapped_bytes_;
  const Address address_;
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
  std::map<int, Address> threads, processes;
  std::vector<int> ranks;
  for (const PeerAddress& each : peers) {
    const Result<Address> peer = Address::parse(each.address);
    if (!peer.ok()) return peer.status().in(fmt::format("rank {}", each.rank));
    UNISONO_RETURN_IF_ERROR(address_.reaches(*peer).in(fmt::format("rank {}", each.rank)));
    (address_.same_process(*peer) ? threads : processes)[each.rank] = *peer;
    ranks.push_back(each.rank);
  }
  std::ranges::sort(ranks);
  Result<std::shared_ptr<Region>> region = Region::create(ranks, staging_bytes_, mapped_bytes_);
  if (!region.ok()) {
    announce(address_.id, std::make_shared<Region>());
    handshake_->refuse(rank_, job_token_, processes, deadline);
    (void)connect_threads(threads, deadline).ok();  // they take what was announced
    withdraw(address_.id);
    return region.status();
  }
  region_ = region.take();
  if (mapped_bytes_ > 0 && peers.size() + 1 == channels_.size()) {
    mapped_.resize(channels_.size());
    mapped_[static_cast<size_t>(rank_)] = region_->mapped_block();
  }

  announce(address_.id, region_);  // first: threads need not wait for my processes
  auto found = handshake_->exchange(rank_, job_token_, *region_, processes, deadline);
  if (!found.ok()) handshake_->refuse(rank_, job_token_, processes, deadline);
  const Status status = connect_threads(threads, deadline);
  withdraw(address_.id);
  UNISONO_RETURN_IF_ERROR(found.status());
  UNISONO_RETURN_IF_ERROR(status);
  for (auto& [peer, peer_region] : *found) open(peer, std::move(peer_region));
  handshake_.reset();
  region_->close_file();
  std::ranges::sort(connected_, {}, [](const HostChannel* each) { return each->peer(); });
  return Status();
}

Status HostMemory::connect_threads(const std::map<int, Address>& peers, Deadline deadline) {
  std::vector<uint64_t> ids;
  for (const auto& [peer, address] : peers) ids.push_back(address.id);
  auto regions = await_regions(ids, deadline);
  std::vector<int> missing;
  Status refusal;
  size_t next = 0;
  for (const auto& [peer, address] : peers) {
    auto region = std::make_unique<PeerRegion>();
    region->same_process = std::move(regions[next++]);
    if (region->same_process == nullptr) {
      missing.push_back(peer);
      continue;
    }
    if (region->data() == nullptr) {
      refusal = cannot_share(peer);
      continue;
    }
    if (region_ == nullptr) continue;
    region->index = region->same_process->index_of(rank_);
    open(peer, std::move(region));
  }
  if (!missing.empty()) return no_connection(missing);
  // Even where all is lost: whoever has not come yet would wait for what is withdrawn.
  // Whoever has not taken a share of my region by now has taken none of its peers', or is slow.
  if (!await_takers(address_.id, static_cast<int>(peers.size()), deadline))
    return Status(StatusCode::kTimeout, "host_memory: a rank did not connect before the deadline");
  return refusal;
}

void HostMemory::open(int peer, std::unique_ptr<PeerRegion> region) {
  const int process = region->process.get();
  doorbells_.push_back(&region->header().asleep);
  if (!mapped_.empty()) mapped_[static_cast<size_t>(peer)] = region->mapped_block();
  auto channel = std::make_unique<HostChannel>(*region_, rank_, peer, std::move(region));
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
