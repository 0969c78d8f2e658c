// SPDX-License-Identifier: Apache-2.0
// What the ranks of a star say to each other: one hello of fixed size, then frames.
//
//   rank r                                   rank 0
//   hello (token, magic, version, r, size) → token first; a stranger is dropped without an answer
//                    welcome or refused    ← both open with the token: a stranger cannot pose as
//                    rank 0
//   ready                                  → from here on a lost connection is a failed rank
//                    go                    ← everybody is ready, the listener is closed
//   data             result or failure     ← once per all_gather
//   turn over                turn over     ← from here on the control channel has the connection:
//   word             verdict or ask        ← control.h; rank 0 says by a word that it leaves
//   data, late       result                ← all_gather again; late: the sender's patience is over
//
// Numbers are little-endian. Every length is checked before memory is taken for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/status.h"
#include "bootstrap/token.h"

namespace unisono {

inline constexpr size_t kHelloBytes = kTokenBytes + 16;
inline constexpr size_t kFrameHeaderBytes = 24;
inline constexpr size_t kMaxTextBytes = 4096;  // of a refusal or a failure, with what precedes it

struct Hello {
  std::string token;
  uint32_t magic = 0x4e4f5355, version = 1;
  int rank = 0, size = 0;
};
std::string encode(const Hello& hello);
Hello decode_hello(std::string_view bytes);  // of kHelloBytes

enum class FrameKind : uint32_t {
  kWelcome,
  kRefused,
  kReady,
  kGo,
  kData,
  kResult,
  kFailure,
  kTurnOver,
  kWord,
  kVerdict,
  kAsk,
  kLate
};

struct FrameHeader {
  FrameKind kind = FrameKind::kReady;
  uint32_t sequence = 0;     // of the all_gather; 0 before the first
  uint64_t length = 0;       // of the payload that follows, bytes
  uint64_t patience_us = 0;  // ready, data: how long the sender will wait
};
struct Frame : FrameHeader {
  std::string payload;
};

using Bytes = std::shared_ptr<const std::string>;  // one copy however many ranks it goes to

Bytes encode(const Frame& frame);
FrameHeader decode_header(std::string_view bytes);  // of kFrameHeaderBytes

// A little less than what is left, so that rank 0 can still say in time who is missing.
uint64_t patience_of(Deadline deadline);

std::string encode(const Status& status);
Status decode_status(std::string_view payload);

}  // namespace unisono
