// SPDX-License-Identifier: Apache-2.0
#include "tests/support/transport_world.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <new>
#include <thread>

namespace unisono::testing {

struct TransportRank::Board {
  static constexpr int kMaxRanks = 16;
  static constexpr int kMaxGenerations = 256;
  static constexpr size_t kMaxAddress = 512;
  struct Entry {
    std::atomic<size_t> bytes;
    char address[kMaxAddress];
  };
  Entry addresses[kMaxGenerations][kMaxRanks];
  std::atomic<int> arrived;
};

namespace {

using Board = TransportRank::Board;

Board* new_board() {
  void* const memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return new (memory) Board;  // zeroed by the kernel, page by page as it is used
}

void run_rank(int index, int size, Board& board, const Create& create, const Body& body,
              bool connect) {
  TransportRank rank(index, size, board, create);
  rank.renew();
  ASSERT_NE(rank.transport, nullptr);
  if (connect) {
    const Status status = rank.connect();
    ASSERT_TRUE(status.ok()) << status.message();
  }
  body(rank);
}

}  // namespace

std::unique_ptr<Transport> TransportRank::renew() {
  static const Settings settings;
  auto fresh = create_({rank, size, std::string(16, 'T'), &settings});
  EXPECT_TRUE(fresh.ok()) << fresh.status().message();
  ++generation_;
  return std::exchange(transport, fresh.ok() ? fresh.take() : nullptr);
}

void TransportRank::publish_address() {
  const std::string address = transport->address();
  ASSERT_LE(address.size(), Board::kMaxAddress);
  Board::Entry& entry = board_.addresses[generation_][rank];
  std::memcpy(entry.address, address.data(), address.size());
  entry.bytes.store(address.size());
}

std::vector<PeerAddress> TransportRank::peer_addresses() const {
  std::vector<PeerAddress> peers;
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const Board::Entry& entry = board_.addresses[generation_][peer];
    while (entry.bytes.load() == 0 && !deadline.passed()) sched_yield();
    peers.push_back({peer, std::string(entry.address, entry.bytes.load())});
  }
  return peers;
}

Status TransportRank::connect(std::chrono::nanoseconds timeout) {
  publish_address();
  return transport->connect(peer_addresses(), Deadline::after(timeout));
}

void TransportRank::wait_until(const std::function<bool()>& ready, const char* what) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(30));
  for (int idle = 0; !ready();) {
    if (transport->progress() > 0) {
      idle = 0;
    } else if (++idle > 20) {
      transport->sleep(std::chrono::milliseconds(10));
      ASSERT_FALSE(deadline.passed()) << "rank " << rank << " waits for " << what;
    }
  }
}

void TransportRank::barrier() {
  const int target = ++barriers_ * size;
  board_.arrived.fetch_add(1);
  const Deadline deadline = Deadline::after(std::chrono::seconds(30));
  while (board_.arrived.load() < target) {
    if (transport->progress() == 0) sched_yield();
    ASSERT_FALSE(deadline.passed()) << "rank " << rank << " waits at barrier " << barriers_;
  }
}

void run_transport_threads(int size, const Create& create, const Body& body, bool connect) {
  Board* const board = new_board();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] { run_rank(rank, size, *board, create, body, connect); });
  for (std::thread& thread : threads) thread.join();
  munmap(board, sizeof(Board));
}

std::vector<int> run_transport_processes(int size, const Create& create, const Body& body,
                                         bool connect) {
  Board* const board = new_board();
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
      run_rank(rank, size, *board, create, body, connect);
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  std::vector<int> statuses(children.size());
  for (size_t i = 0; i < children.size(); ++i)
    EXPECT_EQ(waitpid(children[i], &statuses[i], 0), children[i]);
  munmap(board, sizeof(Board));
  return statuses;
}

}  // namespace unisono::testing
