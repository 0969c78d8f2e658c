// SPDX-License-Identifier: Apache-2.0
#include "tests/support/meeting.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "bootstrap/token.h"

namespace unisono::testing {
namespace {

std::string bytes_of(int rank, int round) {
  return std::string(static_cast<size_t>(rank * round * 37), static_cast<char>('a' + rank % 26));
}

MakeRank star_at(const std::string& token, const Endpoint& where, int size) {
  return [=](int rank, Deadline deadline) -> Made {
    StarOptions options = star(rank, size, token, where);
    if (rank == 0) {
      auto listener = listen_on(where);
      if (!listener.ok()) return listener.status();
      options.listeners.push_back(listener.take());
    }
    return join_star(std::move(options), deadline);
  };
}

}  // namespace

uint16_t free_port(const char* host) {
  Endpoint where = literal_endpoint(host, 0);
  const auto listener = listen_on(where);
  return local_end(listener->descriptor()).port();
}

StarOptions star(int rank, int size, const std::string& token, const Endpoint& where) {
  StarOptions options{rank, size, token, {}, {}, Log(Settings(), rank)};
  if (rank != 0) options.rendezvous = {where};
  return options;
}

MakeRank local_star(int size) {
  const std::string token = random_token();
  return star_at(token, local_endpoint(token), size);
}
MakeRank tcp_star(const char* host, int size) {
  return star_at(random_token(), literal_endpoint(host, free_port(host)), size);
}

void on_threads(const MakeRank& make, int size, const std::function<void(int, Made)>& body,
                std::chrono::nanoseconds timeout) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.emplace_back([&, rank] { body(rank, make(rank, Deadline::after(timeout))); });
  for (std::thread& thread : ranks) thread.join();
}

pid_t fork_rank(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  return child;
}

int exit_status(pid_t child) {
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string gather_some(Made made, int rank, int size) {
  if (!made.ok()) return std::string(made.status().message());
  Bootstrap& bootstrap = **made;
  if (bootstrap.rank() != rank || bootstrap.size() != size) return "wrong place";
  const auto tokens = bootstrap.all_gather(bootstrap.job_token(), Deadline::after(kLong));
  if (!tokens.ok()) return std::string(tokens.status().message());
  for (const std::string& token : *tokens)
    if (token.size() != kTokenBytes || token != tokens->front()) return "tokens differ";
  for (int round = 0; round < 4; ++round) {
    const auto all = bootstrap.all_gather(bytes_of(rank, round), Deadline::after(kLong));
    if (!all.ok()) return std::string(all.status().message());
    if (all->size() != static_cast<size_t>(size)) return "wrong number of parts";
    for (int peer = 0; peer < size; ++peer)
      if ((*all)[static_cast<size_t>(peer)] != bytes_of(peer, round)) return "wrong bytes";
  }
  return {};
}

}  // namespace unisono::testing
