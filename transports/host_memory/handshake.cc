// SPDX-License-Identifier: Apache-2.0
// Each pair of ranks makes two connections, one message each way, so nobody waits for anybody's
// order.
#include "transports/host_memory/handshake.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include "transports/host_memory/hello.h"

namespace unisono::host_memory {
namespace {

constexpr size_t kMaxVisitors = 256;  // accepted connections that have not yet said who they are
constexpr int kRetryMs = 5;           // for a peer whose queue of connections is full

// Null when the file is not a region that I can rely on.
std::unique_ptr<PeerRegion> adopt(Received& received) {
  auto peer = std::make_unique<PeerRegion>();
  const int file = received.files[0].get();
  struct stat status;
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(file, &status) != 0) return nullptr;
  const auto bytes = static_cast<size_t>(status.st_size);
  if (bytes < sizeof(RegionHeader) || !peer->mapping.map(file, bytes).ok()) return nullptr;
  peer->index = received.hello.index;
  peer->pid = received.hello.pid;
  peer->process = std::move(received.files[1]);
  const Geometry& geometry = peer->header().geometry;
  if (!std::has_single_bit(geometry.slots) || geometry.region_bytes() != bytes ||
      (geometry.pairs > 0 && peer->index >= geometry.pairs))
    return nullptr;
  return peer;
}

// One run of exchange().
class Exchange {
 public:
  Exchange(int rank, const std::string& job_token, const Region& region, int process,
           const std::map<int, Address>& peers)
      : rank_(rank), job_token_(job_token), region_(region), process_(process), peers_(peers) {
    for (const auto& [peer, address] : peers) to_greet_.push_back(peer);
  }

  bool finished() const { return to_greet_.empty() && found_.size() == peers_.size(); }
  std::map<int, std::unique_ptr<PeerRegion>> take() { return std::move(found_); }

  // Waits for the next event, at most until the deadline, and handles it.
  Status turn(const Descriptor& listener, Deadline deadline) {
    UNISONO_RETURN_IF_ERROR(greet_all());
    std::vector<pollfd> waits{{listener.get(), POLLIN, 0}};
    for (const Descriptor& visitor : visitors_) waits.push_back({visitor.get(), POLLIN, 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
    const auto wait =
        static_cast<int>(std::min<int64_t>(left, to_greet_.empty() ? 1000 : kRetryMs));
    if (!finished() && poll(waits.data(), waits.size(), wait) < 0 && errno != EINTR)
      return system_error("host_memory: cannot wait for peers");
    accept_all(listener);
    hear();
    return failure_;
  }

  Status missing() const {
    std::vector<int> ranks = to_greet_;
    for (const auto& [peer, address] : peers_)
      if (!found_.contains(peer)) ranks.push_back(peer);
    return no_connection(std::move(ranks));
  }

 private:
  // Connects to all who have not been greeted; those whose queue is full are tried again.
  Status greet_all() {
    std::vector<int> again;
    const int files[Hello::kFiles] = {region_.file(), process_};
    for (const int peer : to_greet_) {
      const Address& address = peers_.at(peer);
      const int error =
          greet(address, Hello(job_token_, rank_, peer, region_.index_of(peer)), files);
      if (error == ECONNREFUSED || error == EPIPE || error == ECONNRESET)
        return Status(
            StatusCode::kPeerFailed,
            fmt::format("rank {} (pid {}) left before it was connected", peer, address.pid));
      if (error != 0 && error != EAGAIN)
        return Status(StatusCode::kSystem, fmt::format("host_memory: cannot connect to rank {}: {}",
                                                       peer, std::strerror(error)));
      if (error == EAGAIN) again.push_back(peer);
    }
    to_greet_ = std::move(again);
    return Status();
  }

  void accept_all(const Descriptor& listener) {
    for (;;) {
      Descriptor visitor = accept_visitor(listener);
      if (!visitor.valid()) return;
      // The longest silent one makes room: peers speak at once.
      if (visitors_.size() == kMaxVisitors) visitors_.erase(visitors_.begin());
      visitors_.push_back(std::move(visitor));
      hear();
    }
  }

  void hear() {
    std::erase_if(visitors_, [&](const Descriptor& visitor) {
      Received received = receive_hello(visitor);
      if (received.bytes < 0) return errno != EAGAIN;
      if (received.bytes == sizeof(Hello)) welcome(received);
      return true;
    });
  }

  void welcome(Received& received) {
    const Hello& hello = received.hello;
    if (!hello.is_for(rank_, job_token_) || !peers_.contains(hello.from) || found_.contains(hello.from)) return;
    if (hello.index == Hello::kRefusal) {
      failure_ = cannot_share(hello.from);
    } else if (received.files.size() == Hello::kFiles) {
      if (auto region = adopt(received))
        found_[hello.from] = std::move(region);
      else
        failure_ = cannot_map(fmt::format("the memory of rank {}", hello.from));
    }
  }

  const int rank_;
  const std::string& job_token_;
  const Region& region_;
  const int process_;  // my pidfd
  const std::map<int, Address>& peers_;
  std::vector<int> to_greet_;
  std::vector<Descriptor> visitors_;  // oldest first
  std::map<int, std::unique_ptr<PeerRegion>> found_;
  Status failure_;
};

}  // namespace

Status no_connection(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return Status(StatusCode::kTimeout,
                fmt::format("host_memory: no connection with rank{} {} before the deadline",
                            ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", ")));
}

Status cannot_share(int rank) {
  return Status(StatusCode::kPeerFailed, fmt::format("rank {} cannot share memory", rank));
}

Result<Handshake> Handshake::listen(const Address& mine) {
  auto listener = listen_at(mine);
  if (!listener.ok()) return listener.status();
  return Handshake(listener.take());
}

Result<std::map<int, std::unique_ptr<PeerRegion>>> Handshake::exchange(
    int rank, const std::string& job_token, const Region& region,
    const std::map<int, Address>& peers, Deadline deadline) {
  if (peers.empty()) return std::map<int, std::unique_ptr<PeerRegion>>();
  const Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (!process.valid()) return system_error("host_memory: cannot watch processes (pidfd_open)");
  Exchange exchange(rank, job_token, region, process.get(), peers);
  while (!exchange.finished()) {
    if (deadline.passed()) return exchange.missing();
    UNISONO_RETURN_IF_ERROR(exchange.turn(listener_, deadline));
  }
  return exchange.take();
}

void Handshake::refuse(int rank, const std::string& job_token, const std::map<int, Address>& peers,
                       Deadline deadline) {
  for (const auto& [peer, address] : peers)
    while (greet(address, Hello(job_token, rank, peer, Hello::kRefusal), {}) == EAGAIN &&
           !deadline.passed())
      poll(nullptr, 0, kRetryMs);
}

}  // namespace unisono::host_memory
