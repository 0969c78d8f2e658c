// SPDX-License-Identifier: Apache-2.0
// What is particular to host_memory: processes that die, strangers at the door, shortage, leaks.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/transport_world.h"
#include "transports/host_memory/address.h"
#include "transports/host_memory/transport.h"

namespace unisono::testing {
namespace {

using std::chrono::seconds;

Key key(uint32_t message) {
  return {1, message, 0, 0xfeed};
}

TEST(HostMemory, AKilledProcessIsNoticedAndItsMessagesStay) {
  const auto statuses = run_transport_processes(3, create_host_memory, [](TransportRank& me) {
    const int64_t value = 42;
    if (me.rank == 2) {
      Ended sends[2];
      for (const int peer : {0, 1})
        me.transport->channel(peer).post_send(key(0), &value, sizeof value, sends[peer]);
      me.barrier();
      raise(SIGKILL);
    }
    Channel& channel = me.transport->channel(2);
    int64_t in = 0, never = 0;
    Ended first, second, send;
    channel.post_recv(key(1), &never, sizeof never, second);
    me.barrier();
    const Deadline deadline = Deadline::after(seconds(1));
    me.wait(second);
    EXPECT_FALSE(deadline.passed());
    EXPECT_EQ(second.status.code(), StatusCode::kPeerFailed);
    EXPECT_TRUE(second.status.message().starts_with("rank 2 (pid ")) << second.status.message();
    EXPECT_TRUE(second.status.message().ends_with(") died")) << second.status.message();
    channel.post_recv(key(0), &in, sizeof in, first);
    me.wait(first);
    EXPECT_TRUE(first.status.ok()) << first.status.message();
    EXPECT_EQ(in, 42);
    channel.post_send(key(2), &in, sizeof in, send);
    me.wait(send);
    EXPECT_EQ(send.status.code(), StatusCode::kPeerFailed);

    // The living go on.
    Ended out, back;
    Channel& other = me.transport->channel(1 - me.rank);
    other.post_send(key(5), &value, sizeof value, out);
    other.post_recv(key(5), &never, sizeof never, back);
    me.wait(back);
    EXPECT_EQ(never, 42);
  });
  EXPECT_EQ(statuses[0], 0);
  EXPECT_EQ(statuses[1], 0);
  EXPECT_TRUE(WIFSIGNALED(statuses[2]));
}

TEST(HostMemory, AMissingRankIsNamed) {
  const Body body = [](TransportRank& me) {
    me.publish_address();
    const auto peers = me.peer_addresses();
    if (me.rank == 1) return me.barrier();
    const Status status =
        me.transport->connect(peers, Deadline::after(std::chrono::milliseconds(200)));
    EXPECT_EQ(status.code(), StatusCode::kTimeout);
    EXPECT_EQ(status.message(), "host_memory: no connection with rank 1 before the deadline");
    me.barrier();
  };
  run_transport_threads(3, create_host_memory, body, false);
  for (const int status : run_transport_processes(3, create_host_memory, body, false))
    EXPECT_EQ(status, 0);
}

TEST(HostMemory, ARankThatLeftBeforeIsNamed) {
  const auto statuses = run_transport_processes(
      2, create_host_memory,
      [](TransportRank& me) {
        me.publish_address();
        const auto peers = me.peer_addresses();
        if (me.rank == 1) me.renew().reset();
        me.barrier();
        if (me.rank == 1) return;
        const Status status = me.transport->connect(peers, Deadline::after(seconds(20)));
        EXPECT_EQ(status.code(), StatusCode::kPeerFailed);
        EXPECT_TRUE(status.message().starts_with("rank 1 (pid ")) << status.message();
      },
      false);
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

// A connection to a rank's socket; -1 when it is refused.
int visit(const PeerAddress& peer) {
  const auto address = host_memory::Address::parse(peer.address);
  EXPECT_TRUE(address.ok());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const size_t length = strnlen(address->socket.data(), address->socket.size());
  std::memcpy(name.sun_path + 1, address->socket.data(), length);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&name), bytes) == 0) return fd;
  close(fd);
  return -1;
}

void say(int fd, const std::string& bytes, bool with_file) {
  iovec vector{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (with_file) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  sendmsg(fd, &message, MSG_NOSIGNAL);
}

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// Rank 0 is a stranger that knows where the others listen: it says nothing, nonsense, half of
// something, far too much, with and without a file, and the others connect all the same.
TEST(HostMemory, StrangersAreDropped) {
  const auto statuses = run_transport_processes(
      3, create_host_memory,
      [](TransportRank& me) {
        me.publish_address();
        std::vector<PeerAddress> peers = me.peer_addresses();
        if (me.rank == 0) {
          std::vector<int> visits;
          for (const PeerAddress& peer : peers) {
            for (int i = 0; i < 100; ++i) visits.push_back(visit(peer));
            for (const size_t bytes : {1, 20, 40, 48, 64, 4096})
              for (const bool with_file : {false, true}) {
                visits.push_back(visit(peer));
                say(visits.back(), std::string(bytes, 'x'), with_file);
              }
          }
          me.barrier();  // the doors are crowded; now the others connect
          me.barrier();
          for (const int fd : visits) close(fd);
          return;
        }
        std::erase_if(peers, [](const PeerAddress& peer) { return peer.rank == 0; });
        const size_t before = open_descriptors();
        me.barrier();
        const Status status = me.transport->connect(peers, Deadline::after(seconds(20)));
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(open_descriptors(),
                  before);  // the process of my peer for my door
        int64_t out = me.rank, in = 0;
        Ended send, receive;
        Channel& channel = me.transport->channel(3 - me.rank);
        channel.post_send(key(0), &out, sizeof out, send);
        channel.post_recv(key(0), &in, sizeof in, receive);
        me.wait(receive);
        EXPECT_EQ(in, 3 - me.rank);
        me.barrier();
      },
      false);
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(HostMemory, AnotherJobIsDropped) {
  const auto other_token = [](TransportContext context) {
    if (context.rank == 1) context.job_token = std::string(16, 'U');
    return create_host_memory(context);
  };
  const auto statuses = run_transport_processes(
      2, other_token,
      [](TransportRank& me) {
        EXPECT_EQ(me.connect(std::chrono::milliseconds(300)).code(), StatusCode::kTimeout);
        me.barrier();
      },
      false);
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(HostMemory, AShortageSaysNeedAndHave) {
  const auto statuses = run_transport_processes(
      2, create_host_memory,
      [](TransportRank& me) {
        const rlimit limit{1 << 20, 1 << 20};
        ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
        const Status status = me.connect(seconds(5));
        EXPECT_EQ(status.code(), StatusCode::kOutOfResources);
        EXPECT_NE(status.message().find("have 1Mi"), std::string_view::npos) << status.message();
        me.barrier();
      },
      false);
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(HostMemory, ReachSaysWhyNot) {
  const Settings settings;
  const auto transport = create_host_memory({0, 2, std::string(16, 'T'), &settings});
  ASSERT_TRUE(transport.ok());
  const auto mine = host_memory::Address::mine();
  ASSERT_TRUE(mine.ok());
  EXPECT_TRUE((*transport)->reach(mine->bytes()).ok());
  host_memory::Address other = *mine;
  other.boot_id[0] ^= 1;
  EXPECT_EQ((*transport)->reach(other.bytes()).message(),
            "host_memory: the peer is on another host");
  other = *mine;
  ++other.network_namespace;
  EXPECT_EQ((*transport)->reach(other.bytes()).code(), StatusCode::kUnsupported);
  other = *mine;
  ++other.user;
  EXPECT_EQ((*transport)->reach(other.bytes()).code(), StatusCode::kUnsupported);
  EXPECT_EQ((*transport)->reach("short").code(), StatusCode::kInvalidArgument);
}

size_t mappings() {
  std::ifstream file("/proc/self/maps");
  size_t lines = 0;
  for (std::string line; std::getline(file, line);)
    lines += line.find("memfd:unisono") != line.npos;
  return lines;
}

void cycle(TransportRank& me, int times) {
  const size_t descriptors = open_descriptors(), maps = mappings();
  for (int i = 0; i < times; ++i) {
    me.renew().reset();
    ASSERT_TRUE(me.connect().ok());
    int64_t out = i, in = 0;
    Ended send, receive;
    const int peer = 1 - me.rank;
    me.transport->channel(peer).post_send(key(0), &out, sizeof out, send);
    me.transport->channel(peer).post_recv(key(0), &in, sizeof in, receive);
    me.wait(receive);
    EXPECT_EQ(in, i);
    me.barrier();
  }
  EXPECT_LE(open_descriptors(), descriptors);
  EXPECT_EQ(mappings(), maps);
}

TEST(HostMemory, NothingLeaksBetweenProcesses) {
  const auto statuses =
      run_transport_processes(2, create_host_memory, [](TransportRank& me) { cycle(me, 200); });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(HostMemory, NothingLeaksBetweenThreads) {
  const size_t descriptors = open_descriptors(), maps = mappings();
  for (int i = 0; i < 200; ++i)
    run_transport_threads(2, create_host_memory, [](TransportRank& me) { me.barrier(); });
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(mappings(), maps);
}

}  // namespace
}  // namespace unisono::testing
