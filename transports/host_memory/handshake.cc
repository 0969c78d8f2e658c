// SPDX-License-Identifier: Apache-2.0
// Each pair of ranks makes two connections, one message each way, so nobody waits for anybody's
// order.
#include "transports/host_memory/handshake.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace unisono::host_memory {
namespace {

constexpr size_t kTokenBytes = 16;
constexpr size_t kMaxVisitors = 256;  // accepted connections that have not yet said who they are
constexpr int kRetryMs = 5;           // for a peer whose queue of connections is full

constexpr uint32_t kRefusal = UINT32_MAX;  // in place of an index: the sender cannot share memory

// The one message of a connection; the region's file and the sender's pidfd come with it.
struct Hello {
  uint32_t magic = 0x6f6c6548, version = Address::kVersion;  // "Helo"
  std::array<char, kTokenBytes> token{};
  int32_t from = 0, to = 0;
  uint32_t index = 0;  // of the receiver's block in the region
  int32_t pid = 0;

  Hello() = default;
  Hello(const std::string& job_token, int from, int to, uint32_t index)
      : from(from), to(to), index(index), pid(static_cast<int32_t>(getpid())) {
    assert(job_token.size() == kTokenBytes);
    std::ranges::copy(job_token, token.begin());
  }
};
constexpr size_t kHelloFiles = 2;

struct SocketName {
  sockaddr_un name{};
  socklen_t bytes;

  explicit SocketName(const Address& address) {
    name.sun_family = AF_UNIX;  // sun_path[0] = 0: abstract, so nothing is left in any file system
    const size_t length = strnlen(address.socket.data(), address.socket.size());
    std::memcpy(name.sun_path + 1, address.socket.data(), length);
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

Descriptor new_socket() {
  return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// The kernel's word for who holds the other end; it cannot be forged.
bool same_user(const Descriptor& connection) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  return getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0 &&
         credentials.uid == geteuid();
}

template <typename Call>
auto retried(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

struct ControlBuffer {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kHelloFiles)> bytes{};
};

// With no files at all, or kHelloFiles.
bool send_hello(const Descriptor& connection, const Hello& hello, std::span<const int> files) {
  iovec vector{const_cast<Hello*>(&hello), sizeof hello};
  ControlBuffer control;
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(header), files.data(), files.size_bytes());
  }
  return retried([&] { return sendmsg(connection.get(), &message, MSG_NOSIGNAL); }) ==
         static_cast<ssize_t>(sizeof hello);
}

// 0, or the reason as errno: EAGAIN when the peer's queue of connections is full.
int greet(const Address& peer, const Hello& hello, std::span<const int> files) {
  const Descriptor connection = new_socket();
  const SocketName name(peer);
  if (!connection.valid() ||
      retried([&] { return ::connect(connection.get(), name.get(), name.bytes); }) != 0)
    return errno;
  if (!same_user(connection)) return EACCES;
  return send_hello(connection, hello, files) ? 0 : errno;
}

struct Received {
  ssize_t bytes;  // < 0: nothing yet, errno tells
  Hello hello;
  std::vector<Descriptor> files;  // all that came, so that a stranger's are closed too
};

Received receive_hello(const Descriptor& connection) {
  Received received{};
  std::array<char, sizeof(Hello) + 1> buffer;  // one byte more: a longer message is seen as such
  iovec vector{buffer.data(), buffer.size()};
  ControlBuffer control;
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  received.bytes = retried([&] { return recvmsg(connection.get(), &message, MSG_CMSG_CLOEXEC); });
  if (received.bytes < 0) return received;
  std::memcpy(&received.hello, buffer.data(), sizeof(Hello));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      received.files.emplace_back(fd);
    }
  }
  return received;
}

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
    const int files[kHelloFiles] = {region_.file(), process_};
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
      Descriptor visitor(retried(
          [&] { return accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }));
      if (!visitor.valid()) return;
      if (!same_user(visitor)) continue;
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
    const Hello expected(job_token_, hello.from, rank_, 0);
    if (hello.magic != expected.magic || hello.version != expected.version ||
        hello.token != expected.token || hello.to != rank_ || !peers_.contains(hello.from) ||
        found_.contains(hello.from))
      return;
    if (hello.index == kRefusal) {
      failure_ = cannot_share(hello.from);
    } else if (received.files.size() == kHelloFiles) {
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
  Descriptor listener = new_socket();
  if (!listener.valid()) return system_error("host_memory: cannot make a socket");
  const SocketName name(mine);
  if (bind(listener.get(), name.get(), name.bytes) != 0 || ::listen(listener.get(), SOMAXCONN) != 0)
    return system_error("host_memory: cannot listen");
  return Handshake(std::move(listener));
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
    while (greet(address, Hello(job_token, rank, peer, kRefusal), {}) == EAGAIN &&
           !deadline.passed())
      poll(nullptr, 0, kRetryMs);
}

}  // namespace unisono::host_memory
