// SPDX-License-Identifier: Apache-2.0
// The transport over UCX on a network: strangers, interfaces, ports, IPv6.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/strangers.h"
#include "tests/support/ucx_pair.h"

#ifdef __SANITIZE_ADDRESS__
// UCX does not free all of a connection request that it refuses.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libucs.so\n";
}
#endif

namespace unisono::testing {
namespace {

using namespace std::chrono_literals;

TEST(UcxStrangers, WithAWrongTokenAreRefused) {
  const auto zero = make_ucx(0, 2), one = make_ucx(1, 2);
  const auto stranger = make_ucx(1, 2, {}, "0123456789abcdeX");  // knows half of it
  const auto far_stranger = make_ucx(1, 2, {}, "X123456789abcdef");
  std::thread listener([&] {
    const Status status = connect_to(*zero, {{1, one->address()}});
    EXPECT_TRUE(status.ok()) << status.message();
  });
  for (Transport* wrong : {stranger.get(), far_stranger.get()}) {
    const Status status = connect_to(*wrong, {{0, zero->address()}}, 300ms);
    EXPECT_EQ(status.code(), StatusCode::kTimeout);
    EXPECT_NE(status.message().find("rank 0 "), std::string_view::npos) << status.message();
  }
  const Status status = connect_to(*one, {{0, zero->address()}});
  EXPECT_TRUE(status.ok()) << status.message();
  listener.join();
  exchange_one(*zero, *one, 0, 1);
}

TEST(UcxStrangers, WithRawSocketsDoNoHarm) {
  std::vector<Socket> strangers;
  const auto zero = make_ucx(0, 2);
  for (const auto& [port, address] : listening())
    for (const std::string& says : nonsense())
      strangers.push_back(stranger(literal_endpoint("127.0.0.1", port), says));
  ASSERT_GE(strangers.size(), 5u);
  const auto one = make_ucx(1, 2);
  connect_both(*zero, *one);
  exchange_one(*zero, *one, 0, 1);
  strangers.clear();
  exchange_one(*one, *zero, 1, 0);
}

TEST(UcxConnect, NamesWhoIsMissing) {
  const auto zero = make_ucx(0, 3), one = make_ucx(1, 3), two = make_ucx(2, 3);
  std::thread other([&] {
    const Status status = connect_to(*one, {{0, zero->address()}, {2, two->address()}}, 1s);
    EXPECT_EQ(status.code(), StatusCode::kTimeout);
    EXPECT_EQ(status.message(), "no connection over ucx with rank 2 (has not called)");
  });
  const Status status = connect_to(*zero, {{1, one->address()}, {2, two->address()}}, 1s);
  EXPECT_EQ(status.message(), "no connection over ucx with rank 2 (has not called)");
  other.join();
}

TEST(UcxConnect, IsHeldToInterfaceAndPorts) {
  Settings settings = with("UNISONO_INTERFACE", "lo");
  ASSERT_TRUE(settings.set("UNISONO_PORT_RANGE", "23450:23499", "test").ok());
  const auto before = listening();
  const auto zero = make_ucx(0, 2, settings), one = make_ucx(1, 2, settings);
  const auto ports = listening();
  EXPECT_GE(ports.size(), before.size() + 2);
  for (const auto& [port, address] : ports) {
    if (before.contains(port)) continue;
    EXPECT_EQ(address, "0100007F") << port;
    EXPECT_GE(port, 23450);
    EXPECT_LE(port, 23499);
  }
  connect_both(*zero, *one);
  exchange_one(*zero, *one, 0, 1);
}

// A network of this process's own, with IPv6 loopback only. False where that is not allowed.
bool enter_ipv6_loopback_only() {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const int control = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq interface = {};
  std::strcpy(interface.ifr_name, "lo");
  interface.ifr_flags = IFF_UP;
  bool done = ioctl(control, SIOCSIFFLAGS, &interface) == 0;
  interface.ifr_addr = {};  // none: takes 127.0.0.1 away
  interface.ifr_addr.sa_family = AF_INET;
  done = done && ioctl(control, SIOCSIFADDR, &interface) == 0;
  close(control);
  return done;
}

TEST(UcxConnect, Ipv6LoopbackAloneIsOneClearLine) {
  in_fresh_process([] {
    if (!enter_ipv6_loopback_only()) {
      std::puts("UcxConnect.Ipv6LoopbackAloneIsOneClearLine tests nothing: no namespaces here");
      return;
    }
    EXPECT_EQ(create_ucx(0, 2).status().message(),
              "ucx needs a network address, and cannot use [::1] and link-local ones");
  });
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
  // The kernel takes a moment before a new address can be bound.
  const Deadline deadline = Deadline::after(5s);
  while (done && !listen_on(literal_endpoint("fd00::7", 0)).ok() && !deadline.passed())
    std::this_thread::yield();
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
    exchange_one(*pair.ranks[0], *pair.ranks[1], 0, 1);
  });
}

TEST(UcxSettings, UsedPortsAreNamed) {
  const auto holder = make_ucx(0, 1, with("UNISONO_PORT_RANGE", "23500:23520"));
  std::string used;
  for (const auto& [port, address] : listening())
    if (port >= 23500 && port <= 23520) used = std::to_string(port);
  ASSERT_FALSE(used.empty());
  const Status status = create_ucx(0, 2, with("UNISONO_PORT_RANGE", used + ":" + used)).status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(used), std::string_view::npos) << status.message();
}

}  // namespace
}  // namespace unisono::testing
