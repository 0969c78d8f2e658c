// SPDX-License-Identifier: Apache-2.0
// The transport ucx beside ucx_perftest (Debian's ucx-utils), between two processes over TCP
// loopback, turn by turn in one run, and the ratios. One-way time of 8 bytes: half the median round
// trip, median of the turns. Bandwidth of 1 MiB messages, 16 in flight: the best turn. Ranks that wait
// yield, and a turn has an end, so a busy machine makes it slow but not endless.
//
//   ucx_latency [turns]
#include <fmt/format.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "transports/registry.h"

namespace unisono {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLarge = 1 << 20;
constexpr uint32_t kWindow = 16;  // messages in flight
constexpr int kPings = 20000, kStreams = 20;
constexpr auto kPingTime = std::chrono::seconds(2);    // then there have been pings enough
constexpr auto kTurnTime = std::chrono::seconds(20);   // then a turn fails
constexpr auto kTotalTime = std::chrono::seconds(60);  // then no other turn begins
constexpr int kSpins = 1000;                           // before waiting yields

struct Figures {
  double one_way_us = 0;
  double gigabytes_per_s = 0;
};

struct Counter : Completion {
  int ended = 0;
  Counter() {
    done = [](Completion& self, Status status) {
      if (!status.ok()) {
        fmt::print(stderr, "{}\n", status.message());
        std::_Exit(1);
      }
      ++static_cast<Counter&>(self).ended;
    };
  }
  void reach(Transport& transport, int count, const Deadline& deadline) const {
    for (int spins = 0; ended < count;) {
      spins = transport.progress() > 0 ? 0 : spins + 1;
      if (spins < kSpins) continue;
      sched_yield();
      if (!deadline.passed()) continue;
      fmt::print(stderr, "ucx_latency: waited for message {} until the end of the turn's {} s\n", ended,
                 kTurnTime.count());
      std::_Exit(1);
    }
  }
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return NAN;
  std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

// Half the median round trip, in us. Rank 0 tells which message is the last.
double ping(Transport& transport, int rank, uint32_t turn, const Deadline& deadline) {
  Channel& channel = transport.channel(1 - rank);
  const Deadline enough = Deadline::after(kPingTime);
  uint64_t out = 0, in = 0;
  Counter sent, received;
  std::vector<double> trips;
  trips.reserve(kPings);
  for (int i = 0; in == 0; ++i) {
    if (rank == 0) out = i + 1 == kPings || enough.passed();
    const Clock::time_point begin = Clock::now();
    const Key key{turn * 2, 0, static_cast<uint32_t>(i), 0};
    channel.post_recv(key, &in, sizeof in, received);
    if (rank == 1) received.reach(transport, i + 1, deadline), out = in;
    channel.post_send(key, &out, sizeof out, sent);
    received.reach(transport, i + 1, deadline);
    trips.push_back(seconds_since(begin) * 1e6);
    sent.reach(transport, i + 1, deadline);
  }
  return median(std::move(trips)) / 2;
}

double stream(Transport& transport, int rank, uint32_t turn, std::vector<std::byte>& buffer, const Deadline& deadline) {
  Channel& channel = transport.channel(1 - rank);
  Counter data, credit;
  uint8_t token = 0;
  Clock::time_point begin;
  for (int i = -kStreams / 10; i < kStreams; ++i) {
    if (i == 0) begin = Clock::now();
    data.ended = credit.ended = 0;
    const Key key{turn * 2 + 1, kWindow, static_cast<uint32_t>(i), 0};
    if (rank == 0) channel.post_recv(key, &token, 1, credit);
    for (uint32_t m = 0; m < kWindow; ++m) {
      const Key piece{key.sequence, m, key.slice, 0};
      if (rank == 0)
        channel.post_send(piece, buffer.data(), kLarge, data);
      else
        channel.post_recv(piece, buffer.data(), kLarge, data);
    }
    data.reach(transport, kWindow, deadline);
    if (rank == 1) channel.post_send(key, &token, 1, credit);
    credit.reach(transport, 1, deadline);
  }
  return kLarge * double{kWindow} * kStreams / seconds_since(begin) / 1e9;
}

// Rank 0 returns its figures; rank 1 is a child process that ends here.
Figures ours(uint32_t turn) {
  const Deadline deadline = Deadline::after(kTurnTime);
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0) std::exit(1);
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  Settings settings;
  (void)settings.set("UNISONO_INTERFACE", "lo", "bench").ok();
  auto transport = find_transport("ucx")->create(
      {.rank = rank, .size = 2, .job_token = "bench-ucx-latenc", .settings = &settings});
  std::string theirs(512, '\0');
  Status status = transport.status();
  if (status.ok()) {
    const std::string mine = (*transport)->address();
    (void)!write(sockets[rank], mine.data(), mine.size());
    theirs.resize(static_cast<size_t>(
        std::max<ssize_t>(0, read(sockets[rank], theirs.data(), theirs.size()))));
    const PeerAddress peer{1 - rank, theirs};
    status = (*transport)->connect(std::span(&peer, 1), deadline);
  }
  if (!status.ok()) {
    fmt::print(stderr, "rank {}: {}\n", rank, status.message());
    std::_Exit(1);
  }
  Figures figures;
  std::vector<std::byte> buffer(kLarge);
  figures.one_way_us = ping(**transport, rank, turn, deadline);
  figures.gigabytes_per_s = stream(**transport, rank, turn, buffer, deadline);
  transport->reset();
  if (rank == 1) std::_Exit(0);
  close(sockets[0]);
  close(sockets[1]);
  waitpid(child, nullptr, 0);
  return figures;
}

// Adds the n-th number, from 0, of the last line that ucx_perftest prints, if it ends in time.
void add_perftest(const std::string& arguments, int field, double unit, std::vector<double>& values) {
  const int port = 20000 + static_cast<int>(getpid() % 10000);
  const std::string program =
      fmt::format("UCX_TLS=tcp UCX_NET_DEVICES=lo timeout {} ucx_perftest -p {}", kTurnTime.count(), port);
  // The server needs a moment to listen; the client is tried until it does.
  const std::string command = fmt::format(
      "{0} >/dev/null 2>&1 & for i in $(seq 50); do {0} 127.0.0.1 {1} -f -v 2>/dev/null && break; "
      "sleep 0.1; "
      "done; wait",
      program, arguments);
  FILE* pipe = popen(command.c_str(), "r");
  std::string last;
  for (char line[512]; pipe != nullptr && fgets(line, sizeof line, pipe) != nullptr;) last = line;
  if (pipe != nullptr) pclose(pipe);
  size_t at = 0;
  for (int i = 0; i < field; ++i) at = last.find(',', at) + 1;
  if (const double value = std::atof(last.c_str() + at); value > 0) values.push_back(value * unit);
}

void print_row(const char* what, double mine, double theirs) {
  fmt::print("{:<24}{:>12.2f}{:>16.2f}{:>8.2f}\n", what, mine, theirs, mine / theirs);
}

int run(int turns) {
  const bool compared = std::system("command -v ucx_perftest >/dev/null") == 0;
  if (!compared) fmt::print("no ucx_perftest here (Debian: ucx-utils): nothing to compare with\n");
  std::vector<double> one_way, their_one_way, rate, their_rate;
  const Deadline end = Deadline::after(kTotalTime);
  int turn = 0;
  for (; turn < turns && !end.passed(); ++turn) {
    const Figures mine = ours(static_cast<uint32_t>(turn));
    one_way.push_back(mine.one_way_us);
    rate.push_back(mine.gigabytes_per_s);
    const std::string stream = fmt::format("-t tag_bw -s {} -n {} -w {} -O {}", kLarge,
                                           kStreams * kWindow, kStreams / 10 * kWindow, kWindow);
    if (!compared) continue;
    add_perftest(fmt::format("-t tag_lat -s 8 -n {}", kPings), 1, 1, their_one_way);
    add_perftest(stream, 5, 1.048576e-3, their_rate);  // MiB/s
  }
  if (turn < turns) fmt::print("{} turns of {}: the machine is busy\n", turn, turns);
  fmt::print("{:<24}{:>12}{:>16}{:>8}\n", "", "unisono", "ucx_perftest", "ratio");
  print_row("8 B one way (us)", median(one_way), median(their_one_way));
  print_row("1 MiB stream (GB/s)", std::ranges::max(rate),
            their_rate.empty() ? NAN : std::ranges::max(their_rate));
  return 0;
}

}  // namespace
}  // namespace unisono

int main(int argc, char** argv) {
  return unisono::run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 5);
}
