// SPDX-License-Identifier: Apache-2.0
// The transport contract: over what it is tested, and messages to test it with.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/transport_world.h"

namespace unisono::testing {

// A transport, and a way to be a rank.
struct Way {
  std::string name;
  std::function<void(int size, const Body& body)> run;
};
std::vector<Way> ways();

class Contract : public ::testing::TestWithParam<Way> {
 protected:
  void run(int size, const Body& body) { GetParam().run(size, body); }
};

using Data = std::vector<std::byte>;

// What `from` sends to `to` as its message of that number. Never the same for two messages.
Data payload(int from, int to, uint32_t message, size_t bytes);

inline Key key(uint32_t message, uint32_t sequence = 1, uint32_t slice = 0) {
  return {sequence, message, slice, 0xfeed};
}

// A message posted by a test: its buffer and its end.
struct Post {
  uint32_t message;
  Data data;
  Ended ended;
};

void expect_payload(const void* data, const Data& expected, uint32_t message);

// Waits for a view, checks it and gives it back.
void check_view(TransportRank& me, int peer, Ended& view, const Data& expected, uint32_t message);

}  // namespace unisono::testing
