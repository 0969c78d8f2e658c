// SPDX-License-Identifier: Apache-2.0
// What processes of one host say to each other over abstract Unix sockets: one message per connection.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transports/host_memory/address.h"
#include "transports/host_memory/region.h"

namespace unisono::host_memory {

// The message; the region's file and the sender's pidfd come with it.
struct Hello {
  static constexpr size_t kTokenBytes = 16, kFiles = 2;
  static constexpr uint32_t kRefusal = UINT32_MAX;  // in place of an index: the sender cannot share memory

  uint32_t magic = 0x6f6c6548, version = Address::kVersion;  // "Helo"
  std::array<char, kTokenBytes> token{};
  int32_t from = 0, to = 0;
  uint32_t index = 0;  // of the receiver's block in the region
  int32_t pid = 0;

  Hello() = default;
  Hello(const std::string& job_token, int from, int to, uint32_t index);
  // Whether a rank of this job, in our language, says it to `rank`.
  bool is_for(int rank, const std::string& job_token) const;
};

// Sockets never block.
Result<Descriptor> listen_at(const Address& mine);
// The next one who connects, of my user; invalid: there is none.
Descriptor accept_visitor(const Descriptor& listener);

// With no files at all, or kFiles. 0, or the reason as errno: EAGAIN when the peer's queue of connections is full.
int greet(const Address& peer, const Hello& hello, std::span<const int> files);

struct Received {
  ssize_t bytes;  // sizeof(Hello), or it is none; < 0: nothing yet, errno tells
  Hello hello;
  std::vector<Descriptor> files;  // all that came, so that a stranger's are closed too
};
Received receive_hello(const Descriptor& connection);

}  // namespace unisono::host_memory
