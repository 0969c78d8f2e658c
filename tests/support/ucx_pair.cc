// SPDX-License-Identifier: Apache-2.0
#include "tests/support/ucx_pair.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "transports/registry.h"

namespace unisono::testing {

using namespace std::chrono_literals;

Result<std::unique_ptr<Transport>> create_ucx(int rank, int size, const Settings& settings,
                                              const std::string& token) {
  return find_transport("ucx")->create(
      {.rank = rank, .size = size, .job_token = token, .settings = &settings});
}

std::unique_ptr<Transport> make_ucx(int rank, int size, const Settings& settings,
                                    const std::string& token) {
  auto transport = create_ucx(rank, size, settings, token);
  EXPECT_TRUE(transport.ok()) << transport.status().message();
  return transport.take();
}

Settings with(std::string_view name, std::string_view value) {
  Settings settings;
  EXPECT_TRUE(settings.set(name, value, "test").ok());
  return settings;
}

Status connect_to(Transport& transport, const std::vector<PeerAddress>& peers,
                  std::chrono::nanoseconds timeout) {
  return transport.connect(peers, Deadline::after(timeout));
}

void wait_for(Transport& transport, const Ended& post) {
  while (post.times == 0)
    if (transport.progress() == 0) transport.sleep(10ms);
}

void exchange_one(Transport& from, Transport& to, int from_rank, int to_rank) {
  const Key key{1, 2, 3, 4};
  int sent = 42, received = 0;
  std::thread sender([&] {
    Ended send;
    from.channel(to_rank).post_send(key, &sent, sizeof sent, send);
    wait_for(from, send);
    EXPECT_TRUE(send.status.ok()) << send.status.message();
  });
  Ended receive;
  to.channel(from_rank).post_recv(key, &received, sizeof received, receive);
  wait_for(to, receive);
  sender.join();
  EXPECT_TRUE(receive.status.ok()) << receive.status.message();
  EXPECT_EQ(received, 42);
}

void connect_both(Transport& zero, Transport& one) {
  std::thread other([&] {
    const Status status = connect_to(one, {{0, zero.address()}});
    EXPECT_TRUE(status.ok()) << status.message();
  });
  const Status status = connect_to(zero, {{1, one.address()}});
  EXPECT_TRUE(status.ok()) << status.message();
  other.join();
}

Pair::Pair(const Settings& settings) {
  for (int rank : {0, 1}) ranks[rank] = make_ucx(rank, 2, settings);
  connect_both(*ranks[0], *ranks[1]);
}

Pair::~Pair() {
  std::thread other([&] { ranks[1].reset(); });
  ranks[0].reset();
  other.join();
}

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

}  // namespace unisono::testing
