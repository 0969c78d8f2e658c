// SPDX-License-Identifier: Apache-2.0
// The few messages that are not data: a connection's greeting, its farewell, and news of a
// mismatch.
#pragma once

#include <ucp/api/ucp.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "transport/transport.h"

namespace unisono {

enum class ControlKind : uint32_t {
  kHello,        // the connecting side: who I am
  kWelcome,      // the answer
  kReady,        // and I have it: without this the answerer might stop to progress too early
  kFarewell,     // I send nothing more and wait for nothing more
  kFarewellAck,  // and I have read all of it
  kMismatch,     // your message was not what I expected
};

// The same on all ranks' machines: little-endian, no padding.
struct ControlMessage {
  static constexpr uint32_t kMagic = 0x31584355;  // "UCX1"

  uint32_t magic = kMagic;
  ControlKind kind = ControlKind::kHello;
  std::array<char, 16> token = {};  // of the job
  uint32_t rank = 0;                // the sender's
  Key key = {};                     // kMismatch: what the receiver expected
  uint32_t got_signature = 0;
  uint64_t expected_bytes = 0;
  uint64_t got_bytes = 0;
};

// Precondition: the token has the message's length.
ControlMessage make_control(ControlKind kind, int rank, std::string_view token);

inline constexpr unsigned kControlId = 0;  // of UCX's active message

// Sends a copy. A failure shows as a failure of the endpoint.
void send_control(ucp_ep_h endpoint, const ControlMessage& message);

}  // namespace unisono
