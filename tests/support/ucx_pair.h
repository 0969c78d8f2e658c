// SPDX-License-Identifier: Apache-2.0
// Transports over UCX in one process, for the tests of what is particular to them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/transport_world.h"

namespace unisono::testing {

const std::string kToken = "0123456789abcdef";

Result<std::unique_ptr<Transport>> create_ucx(int rank, int size, const Settings& settings = {},
                                              const std::string& token = kToken);
std::unique_ptr<Transport> make_ucx(int rank, int size, const Settings& settings = {},
                                    const std::string& token = kToken);

Settings with(std::string_view name, std::string_view value);

Status connect_to(Transport& transport, const std::vector<PeerAddress>& peers,
                  std::chrono::nanoseconds timeout = std::chrono::seconds(20));
// Ranks 0 and 1 with each other, by two threads.
void connect_both(Transport& zero, Transport& one);

// Ends in good time, or the test's own timeout ends it.
void wait_for(Transport& transport, const Ended& post);

// One message from `from` to `to`, by two threads.
void exchange_one(Transport& from, Transport& to, int from_rank, int to_rank);

// Two connected transports of one process, used by two threads.
struct Pair {
  std::unique_ptr<Transport> ranks[2];

  explicit Pair(const Settings& settings = {});
  ~Pair();
};

// Runs `body` in a process that has not loaded UCX.
void in_fresh_process(const std::function<void()>& body);

}  // namespace unisono::testing
