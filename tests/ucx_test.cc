// SPDX-License-Identifier: Apache-2.0
// What is particular to the transport over UCX: the host process, strangers, interfaces, deaths,
// tags. What every transport must do is in transport_test.cc.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "transports/registry.h"
#include "transports/ucx/tag.h"

#ifdef __SANITIZE_ADDRESS__
// UCX does not free all of a connection request that it refuses.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libucs.so\n";
}
#endif

namespace unisono {
namespace {

using namespace std::chrono_literals;

const std::string kToken = "0123456789abcdef";

struct Ended : ViewCompletion {
  Ended() {
    done = [](Completion& self, Status status) {
      auto& ended = static_cast<Ended&>(self);
      ended.status = std::move(status);
      ++ended.times;
    };
  }
  Status status;
  int times = 0;
};

Result<std::unique_ptr<Transport>> create(int rank, int size, const Settings& settings = {},
                                          const std::string& token = kToken) {
  return find_transport("ucx")->create(
      {.rank = rank, .size = size, .job_token = token, .settings = &settings});
}

std::unique_ptr<Transport> create_well(int rank, int size, const Settings& settings = {},
                                       const std::string& token = kToken) {
  auto transport = create(rank, size, settings, token);
  EXPECT_TRUE(transport.ok()) << transport.status().message();
  return transport.take();
}

Settings with(std::string_view name, std::string_view value) {
  Settings settings;
  EXPECT_TRUE(settings.set(name, value, "test").ok());
  return settings;
}

Status connect(Transport& transport, const std::vector<PeerAddress>& peers,
               std::chrono::nanoseconds timeout = 20s) {
  return transport.connect(peers, Deadline::after(timeout));
}

// Ends in good time, or the test's own timeout ends it.
void wait(Transport& transport, const Ended& post) {
  while (post.times == 0)
    if (transport.progress() == 0) transport.sleep(10ms);
}

// One message from `from` to `to`, by two threads.
void exchange(Transport& from, Transport& to, int from_rank, int to_rank) {
  const Key key{1, 2, 3, 4};
  int sent = 42, received = 0;
  std::thread sender([&] {
    Ended send;
    from.channel(to_rank).post_send(key, &sent, sizeof sent, send);
    wait(from, send);
    EXPECT_TRUE(send.status.ok()) << send.status.message();
  });
  Ended receive;
  to.channel(from_rank).post_recv(key, &received, sizeof received, receive);
  wait(to, receive);
  sender.join();
  EXPECT_TRUE(receive.status.ok()) << receive.status.message();
  EXPECT_EQ(received, 42);
}

// Two connected transports of one process, used by two threads.
struct Pair {
  std::unique_ptr<Transport> ranks[2];

  explicit Pair(const Settings& settings = {}) {
    for (int rank : {0, 1}) ranks[rank] = create_well(rank, 2, settings);
    std::thread other([&] {
      const Status status = connect(*ranks[1], {{0, ranks[0]->address()}});
      EXPECT_TRUE(status.ok()) << status.message();
    });
    const Status status = connect(*ranks[0], {{1, ranks[1]->address()}});
    EXPECT_TRUE(status.ok()) << status.message();
    other.join();
  }
  ~Pair() {
    std::thread other([&] { ranks[1].reset(); });
    ranks[0].reset();
    other.join();
  }
};

// Runs `body` in a process that has not loaded UCX.
void in_fresh_process(const std::function<void()>& body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    body();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

size_t entries_of(const char* folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

struct Handlers {
  std::map<int, void*> by_signal;
  Handlers() {
    for (int signal = 1; signal < NSIG; ++signal) {
      struct sigaction action = {};
      if (sigaction(signal, nullptr, &action) == 0)
        by_signal[signal] = reinterpret_cast<void*>(action.sa_handler);
    }
  }
};

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

TEST(UcxHost, IsLeftAlone) {
  in_fresh_process([] {
    std::thread([] {}).join();  // a sanitizer starts a thread of its own at the first one
    const Handlers handlers;
    char** const environ_before = environ;
    const std::vector<std::string> environment_before = environment();
    const size_t threads = entries_of("/proc/self/task");
    {
      Pair pair;
      EXPECT_EQ(Handlers().by_signal, handlers.by_signal);
      EXPECT_EQ(environ, environ_before);
      EXPECT_EQ(environment(), environment_before);
      EXPECT_LE(entries_of("/proc/self/task"), threads + 1);  // UCX's own, while it is used
    }
    EXPECT_EQ(Handlers().by_signal, handlers.by_signal);
    EXPECT_EQ(entries_of("/proc/self/task"), threads);
  });
}

// The other way round: the comparison above sees what UCX does by itself, which a user may ask for.
TEST(UcxHost, VariablesOfTheUserWin) {
  in_fresh_process([] {
    const Handlers handlers;
    setenv("UCX_HANDLE_ERRORS", "bt", 1);
    setenv("UCX_ERROR_SIGNALS", "SIGFPE", 1);
    create_well(0, 1);
    const Handlers now;
    EXPECT_NE(now.by_signal.at(SIGFPE), handlers.by_signal.at(SIGFPE));
    EXPECT_EQ(now.by_signal.at(SIGSEGV), handlers.by_signal.at(SIGSEGV));
  });
}

TEST(UcxHost, FiftyCyclesLeaveNothing) {
  const auto cycle = [] {
    Pair pair;
    exchange(*pair.ranks[0], *pair.ranks[1], 0, 1);
  };
  cycle();
  const size_t descriptors = entries_of("/proc/self/fd");
  const size_t threads = entries_of("/proc/self/task");
  for (int i = 0; i < 50; ++i) cycle();
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
}

// Both ends of a two-process world: the child is rank 1, runs `child` and never returns.
void with_child(const std::function<void(Transport&)>& child,
                const std::function<void(Transport&, pid_t)>& parent) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  const int rank = pid == 0 ? 1 : 0;
  const auto transport = create_well(rank, 2);
  const std::string mine = transport->address();
  std::string theirs(1024, '\0');
  ASSERT_EQ(write(sockets[rank], mine.data(), mine.size()), static_cast<ssize_t>(mine.size()));
  const ssize_t bytes = read(sockets[rank], theirs.data(), theirs.size());
  ASSERT_GT(bytes, 0);
  theirs.resize(static_cast<size_t>(bytes));
  const Status status = connect(*transport, {{1 - rank, theirs}});
  ASSERT_TRUE(status.ok()) << status.message();
  if (rank == 1) {
    child(*transport);
    _exit(0);
  }
  parent(*transport, pid);
  kill(pid, SIGKILL);
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  close(sockets[0]);
  close(sockets[1]);
}

TEST(UcxDeath, EndsEveryPostAndNamesTheRank) {
  std::vector<std::byte> large(64 << 20), landing(1 << 20);
  with_child([](Transport&) { pause(); },
             [&](Transport& transport, pid_t child) {
               Channel& channel = transport.channel(1);
               Ended rendezvous, unmatched, view, after;
               channel.post_send({1, 0, 0, 0}, large.data(), large.size(), rendezvous);
               channel.post_recv({1, 0, 0, 0}, landing.data(), landing.size(), unmatched);
               channel.post_view({1, 1, 0, 0}, 4096, view);
               transport.progress();
               kill(child, SIGKILL);
               const auto begin = std::chrono::steady_clock::now();
               for (const Ended* post : {&rendezvous, &unmatched, &view}) {
                 wait(transport, *post);
                 EXPECT_EQ(post->times, 1);
                 EXPECT_EQ(post->status.code(), StatusCode::kPeerFailed) << post->status.message();
                 EXPECT_NE(post->status.message().find("rank 1"), std::string_view::npos);
               }
               channel.post_send({1, 2, 0, 0}, large.data(), 8, after);
               EXPECT_EQ(after.status.code(), StatusCode::kPeerFailed);
               EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
             });
}

TEST(UcxAbort, InTheMiddleOfALargeTransfer) {
  constexpr size_t kBytes = 64 << 20;
  std::vector<std::byte> data(kBytes);
  with_child(
      [&](Transport& transport) {
        Ended receive;
        transport.channel(0).post_recv({1, 0, 0, 0}, data.data(), kBytes, receive);
        wait(transport, receive);
      },
      [&](Transport& transport, pid_t) {
        Ended send, unmatched, late;
        transport.channel(1).post_send({1, 0, 0, 0}, data.data(), kBytes, send);
        transport.channel(1).post_recv({1, 0, 0, 0}, data.data(), 8, unmatched);
        for (int i = 0; i < 20; ++i) transport.progress();
        const auto begin = std::chrono::steady_clock::now();
        transport.abort();
        EXPECT_LT(std::chrono::steady_clock::now() - begin, 4s);
        EXPECT_EQ(send.times, 1);
        if (!send.status.ok()) {
          EXPECT_EQ(send.status.code(), StatusCode::kAborted);
        }
        EXPECT_EQ(unmatched.times, 1);
        EXPECT_EQ(unmatched.status.code(), StatusCode::kAborted);
        transport.channel(1).post_send({1, 1, 0, 0}, data.data(), 8, late);
        EXPECT_EQ(late.status.code(), StatusCode::kAborted);
      });
}

// TCP ports that this process listens on, with their addresses as the kernel prints them.
std::map<uint16_t, std::string> listening() {
  std::set<std::string> sockets;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    sockets.insert(std::filesystem::read_symlink(entry.path(), error));
  }
  std::map<uint16_t, std::string> ports;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, word, inode;
      words >> number >> local >> remote >> state >> word >> word >> word >> word >> word >> inode;
      const size_t colon = local.find(':');
      if (state == "0A" && sockets.contains("socket:[" + inode + "]"))
        ports[static_cast<uint16_t>(std::stoi(local.substr(colon + 1), nullptr, 16))] =
            local.substr(0, colon);
    }
  }
  return ports;
}

TEST(UcxStrangers, WithAWrongTokenAreRefused) {
  const auto zero = create_well(0, 2), one = create_well(1, 2);
  const auto stranger = create_well(1, 2, {}, "0123456789abcdeX");  // knows half of it
  const auto far_stranger = create_well(1, 2, {}, "X123456789abcdef");
  std::thread listener([&] {
    const Status status = connect(*zero, {{1, one->address()}});
    EXPECT_TRUE(status.ok()) << status.message();
  });
  for (Transport* wrong : {stranger.get(), far_stranger.get()}) {
    const Status status = connect(*wrong, {{0, zero->address()}}, 300ms);
    EXPECT_EQ(status.code(), StatusCode::kTimeout);
    EXPECT_NE(status.message().find("rank 0 "), std::string_view::npos) << status.message();
  }
  const Status status = connect(*one, {{0, zero->address()}});
  EXPECT_TRUE(status.ok()) << status.message();
  listener.join();
  exchange(*zero, *one, 0, 1);
}

class Socket {
 public:
  explicit Socket(uint16_t port) : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  ~Socket() { close(descriptor_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  void say(const std::string& bytes) {
    (void)!::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

 private:
  int descriptor_;
};

TEST(UcxStrangers, WithRawSocketsDoNoHarm) {
  std::vector<std::unique_ptr<Socket>> strangers;
  const auto zero = create_well(0, 2);
  for (const auto& [port, address] : listening())
    for (const std::string& bytes :
         {std::string(), std::string(1, 'x'), std::string("GET / HTTP/1.1\r\n\r\n"),
          std::string(100, '\0'), std::string(5000, '\xff')}) {
      strangers.push_back(std::make_unique<Socket>(port));
      strangers.back()->say(bytes);
    }
  ASSERT_GE(strangers.size(), 5u);
  const auto one = create_well(1, 2);
  std::thread listener([&] {
    const Status status = connect(*zero, {{1, one->address()}});
    EXPECT_TRUE(status.ok()) << status.message();
  });
  const Status status = connect(*one, {{0, zero->address()}});
  EXPECT_TRUE(status.ok()) << status.message();
  listener.join();
  exchange(*zero, *one, 0, 1);
  strangers.clear();
  exchange(*one, *zero, 1, 0);
}

TEST(UcxConnect, NamesWhoIsMissing) {
  const auto zero = create_well(0, 3), one = create_well(1, 3), two = create_well(2, 3);
  std::thread other([&] {
    const Status status = connect(*one, {{0, zero->address()}, {2, two->address()}}, 1s);
    EXPECT_EQ(status.code(), StatusCode::kTimeout);
    EXPECT_EQ(status.message(), "no connection over ucx with rank 2 (has not called)");
  });
  const Status status = connect(*zero, {{1, one->address()}, {2, two->address()}}, 1s);
  EXPECT_EQ(status.message(), "no connection over ucx with rank 2 (has not called)");
  other.join();
}

TEST(UcxConnect, IsHeldToInterfaceAndPorts) {
  Settings settings = with("UNISONO_INTERFACE", "lo");
  ASSERT_TRUE(settings.set("UNISONO_PORT_RANGE", "23450:23499", "test").ok());
  const auto before = listening();
  const auto zero = create_well(0, 2, settings), one = create_well(1, 2, settings);
  const auto ports = listening();
  EXPECT_GE(ports.size(), before.size() + 2);
  for (const auto& [port, address] : ports) {
    if (before.contains(port)) continue;
    EXPECT_EQ(address, "0100007F") << port;
    EXPECT_GE(port, 23450);
    EXPECT_LE(port, 23499);
  }
  std::thread other([&] { EXPECT_TRUE(connect(*one, {{0, zero->address()}}).ok()); });
  EXPECT_TRUE(connect(*zero, {{1, one->address()}}).ok());
  other.join();
  exchange(*zero, *one, 0, 1);
}

// A network of this process's own, with one address outside of loopback: fd00::7. False where that
// is not allowed.
bool enter_ipv6_only_network() {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const int control = socket(AF_INET6, SOCK_DGRAM, 0);
  ifreq interface = {};
  std::strcpy(interface.ifr_name, "lo");
  interface.ifr_flags = IFF_UP;
  in6_ifreq address = {};
  address.ifr6_prefixlen = 128;
  address.ifr6_ifindex = static_cast<int>(if_nametoindex("lo"));
  inet_pton(AF_INET6, "fd00::7", &address.ifr6_addr);
  const bool done =
      ioctl(control, SIOCSIFFLAGS, &interface) == 0 && ioctl(control, SIOCSIFADDR, &address) == 0;
  close(control);
  return done;
}

TEST(UcxConnect, OverIpv6Alone) {
  in_fresh_process([] {
    if (!enter_ipv6_only_network()) {
      std::puts("UcxConnect.OverIpv6Alone tests nothing: no network namespaces here");
      return;
    }
    Pair pair;
    EXPECT_NE(pair.ranks[0]->address().find(" fd00::7"), std::string::npos);
    exchange(*pair.ranks[0], *pair.ranks[1], 0, 1);
  });
}

void expect_refused(const Settings& settings, StatusCode code, const std::string& part) {
  const Status status = create(0, 2, settings).status();
  EXPECT_EQ(status.code(), code);
  EXPECT_NE(status.message().find(part), std::string_view::npos) << status.message();
}

TEST(UcxSettings, BadOnesAreOneClearLine) {
  expect_refused(
      with("UNISONO_INTERFACE", "nope0"), StatusCode::kInvalidArgument,
      "UNISONO_INTERFACE=nope0: no such interface with an address; there are: lo 127.0.0.1");
  expect_refused(with("UNISONO_INTERFACE", "10.1.0.0/99"), StatusCode::kInvalidArgument,
                 "UNISONO_INTERFACE=10.1.0.0/99: expected a name or a subnet like 10.1.0.0/16");
  for (const char* range : {"0:5", "7", "9:8", "1:65536", "1:2:3", "a:b"})
    expect_refused(
        with("UNISONO_PORT_RANGE", range), StatusCode::kInvalidArgument,
        std::string("UNISONO_PORT_RANGE=") + range + ": expected two ports like 20000:20100");
}

TEST(UcxSettings, UsedPortsAreNamed) {
  const auto holder = create_well(0, 1, with("UNISONO_PORT_RANGE", "23500:23520"));
  std::string used;
  for (const auto& [port, address] : listening())
    if (port >= 23500 && port <= 23520) used = std::to_string(port);
  ASSERT_FALSE(used.empty());
  const Status status = create(0, 2, with("UNISONO_PORT_RANGE", used + ":" + used)).status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(used), std::string_view::npos) << status.message();
}

TEST(UcxLimits, AreStated) {
  EXPECT_EQ(create(0, 4097).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(create(0, 4097).status().message(), "transport ucx: 4097 ranks, at most 4096 fit");
  EXPECT_EQ(create(0, 2, {}, "short").status().code(), StatusCode::kInvalidArgument);
  Pair pair;
  Ended post;
  pair.ranks[0]->channel(1).post_send({1, TagLayout(2).max_message() + 1, 0, 0}, nullptr, 0, post);
  EXPECT_EQ(post.times, 1);
  EXPECT_EQ(post.status.code(), StatusCode::kUnsupported) << post.status.message();
}

TEST(UcxTags, TellKeysApart) {
  for (const int size : {1, 2, 3, 64, 65, 128, 129, 4096}) {
    const TagLayout layout(size);
    EXPECT_GE(layout.max_message(), 2u * static_cast<uint32_t>(size - 1)) << size;
    EXPECT_EQ(layout.signature_mask(), size <= 128 ? 0xffffffffu : layout.signature_mask());
    EXPECT_GE(layout.signature_mask(), (1u << 22) - 1);
    std::set<uint64_t> tags;
    size_t keys = 0;
    for (const int sender : {0, size / 2, size - 1})
      for (const uint32_t sequence : {0u, 1u, 255u})
        for (const uint32_t message : {0u, 1u, layout.max_message()})
          for (const uint32_t slice : {0u, 1u, 255u}) {
            const Key key{sequence, message, slice, 0xdeadbeef};
            const uint64_t tag = layout.tag(sender, key);
            tags.insert(tag & layout.match_mask());
            ++keys;
            EXPECT_EQ(layout.signature_of(tag), 0xdeadbeef & layout.signature_mask());
          }
    const std::set<int> senders{0, size / 2, size - 1};
    EXPECT_EQ(tags.size(), keys / 3 * senders.size()) << size;
  }
}

}  // namespace
}  // namespace unisono
