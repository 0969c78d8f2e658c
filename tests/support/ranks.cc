// SPDX-License-Identifier: Apache-2.0
#include "tests/support/ranks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <thread>

#include "tests/support/shared_texts.h"
#include "transports/registry.h"

namespace unisono::testing {
namespace {

constexpr int kCreationFailed = 99;

std::string random_hex_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", random());
  return token;
}

int run_process(int rank, int size, const std::string& token,
                const std::function<int(Communicator&)>& body, const RankOptions& options) {
  if (options.before) options.before(rank);
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
  Settings settings = options.settings;
  if (!settings.set("UNISONO_JOB_TOKEN", token, "options").ok() ||
      !settings.set("UNISONO_BOOTSTRAP", "local", "options").ok())
    return kCreationFailed;
  auto bootstrap = make_process_bootstrap(settings, Deadline::after(std::chrono::seconds(30)));
  Status status = bootstrap.status();
  if (status.ok()) {
    auto communicator = Communicator::create(bootstrap.take(), settings, options.communicator);
    if (communicator.ok()) return body(**communicator);
    status = communicator.status();
  }
  fmt::print(stderr, "rank {}: {}\n", rank, status.message());
  return kCreationFailed;
}

}  // namespace

std::vector<std::string> built_transports() {
  std::vector<std::string> names;
  for (const TransportRow& row : transports())
    if (row.name != "ucx" || UNISONO_HAS_UCX) names.emplace_back(row.name);
  return names;
}

Settings impatient() {
  Settings settings;
  EXPECT_TRUE(settings.set("UNISONO_TIMEOUT", "20s", "options").ok());
  return settings;
}

void run_threads(int size, const std::function<void(Communicator&)>& body, const RankOptions& options) {
  std::vector<std::unique_ptr<Bootstrap>> bootstraps = make_thread_bootstraps(size);
  std::vector<std::thread> threads;
  for (std::unique_ptr<Bootstrap>& bootstrap : bootstraps) {
    threads.emplace_back([&, mine = std::move(bootstrap)]() mutable {
      auto communicator =
          Communicator::create(std::move(mine), options.settings, options.communicator);
      if (communicator.ok()) {
        body(**communicator);
      } else {
        ADD_FAILURE() << communicator.status().message();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<int> run_processes(int size, const std::function<int(Communicator&)>& body,
                               const RankOptions& options) {
  const std::string token = random_hex_token();
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    // _exit: the parent's test framework must not report from here.
    if (child == 0) _exit(run_process(rank, size, token, body, options));
    children.push_back(child);
  }
  std::vector<int> statuses;
  for (const pid_t child : children) {
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    statuses.push_back(status);
  }
  return statuses;
}

void expect_processes(int size, const std::function<std::string(Communicator&)>& body, const RankOptions& options) {
  SharedTexts texts(static_cast<size_t>(size));
  const auto statuses = run_processes(
      size,
      [&](Communicator& communicator) {
        texts.write(static_cast<size_t>(communicator.rank()), body(communicator));
        return 0;
      },
      options);
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_EQ(statuses[static_cast<size_t>(rank)], 0) << "rank " << rank;
    EXPECT_EQ(texts.read(static_cast<size_t>(rank)), "") << "rank " << rank;
  }
}

RankOptions options_with(std::initializer_list<std::pair<const char*, const char*>> settings) {
  RankOptions options;
  for (const auto& [name, value] : settings)
    EXPECT_TRUE(options.settings.set(name, value, "options").ok());
  return options;
}

}  // namespace unisono::testing
