// SPDX-License-Identifier: Apache-2.0
// Schedule: one rank's part of a collective, as plain data. Built by an Algorithm, proven by verify(),
// printed by explain(), priced by simulate(), run by the executor.
//
// A schedule counts in chunks: the user's vector is cut into `chunks` nearly equal parts, so one
// schedule serves every message size. A long vector is first cut into slices; the schedule then runs on
// each slice by itself, several in flight, so slices never depend on one another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace unisono {

enum class Space : uint8_t {
  kNone,     // no operand
  kInput,    // the caller's input; read only; may be the same memory as the output
  kOutput,   // the caller's output
  kScratch,  // the runtime's own, one slot a value, laid out like the user's vector
  kEncoded,  // the runtime's own, one slot a value, in the codec's wire format
};

// Chunks [first, first + count) of the user's vector: contiguous memory in every space. In encoded
// space, and in an encoded message, each chunk is encoded by itself, and one follows the other.
struct ChunkRange {
  uint32_t first = 0;
  uint32_t count = 1;
  bool operator==(const ChunkRange&) const = default;
};

// Where a value of a chunk range lives. `slot` tells apart the values of scratch and encoded space.
struct Place {
  Space space = Space::kNone;
  uint16_t slot = 0;
  bool operator==(const Place&) const = default;
};

enum class StepKind : uint8_t {
  kCopy,        // target = source
  kSend,        // source to each peer
  kRecv,        // target = message of the one peer
  kRecvReduce,  // target = fold of source (if any) and the messages of all peers, operands in rank order
  kEncode,      // target (encoded) = encode(source)
  kDecode,      // target = decode(source (encoded))
};

// One message of an ordered pair of ranks: the pair's `message`-th, counted from 0 in program order.
struct PeerMessage {
  int rank;
  uint32_t message;
  bool encoded = false;  // in the codec's wire format
  bool operator==(const PeerMessage&) const = default;
};

// What a codec has lost so far, where the caller keeps it (error feedback).
enum class Residual : uint8_t {
  kNone,
  kWorker,  // of what I put into the sum
  kOwner,   // of sums that I alone finish
};

struct Step {
  StepKind kind;
  bool finishes = false;  // its result holds every contributor: the one place to divide by their number
  // Of an encode: what it adds to the value, and where it leaves its error. Of a recv_reduce: one
  // more operand, right after my own, and zero afterwards.
  Residual residual = Residual::kNone;
  ChunkRange chunks;
  Place target = {};
  Place source = {};
  uint32_t first_peer = 0, peer_count = 0;    // into Schedule::peers, ascending by rank
  uint32_t first_after = 0, after_count = 0;  // into Schedule::after
  bool operator==(const Step&) const = default;
};

// Immutable once built; safe to share between threads.
struct Schedule {
  Collective collective = Collective::kAllReduce;
  int rank = 0;
  int size = 1;
  uint32_t chunks = 1;
  uint16_t scratch_slots = 0;
  uint16_t encoded_slots = 0;
  std::vector<Step> steps;         // in program order: edges point backwards only
  std::vector<PeerMessage> peers;  // of all steps
  std::vector<uint32_t> after;     // of all steps: indices of steps that must have ended

  bool operator==(const Schedule&) const = default;
  std::span<const PeerMessage> peers_of(const Step& step) const {
    return std::span(peers).subspan(step.first_peer, step.peer_count);
  }
  std::span<const uint32_t> after_of(const Step& step) const {
    return std::span(after).subspan(step.first_after, step.after_count);
  }
};

// Elements [begin, end) of a slice of `count` elements that chunk range `range` covers when the slice is
// cut into `chunks` parts. Boundaries fall on multiples of 64 elements where that still leaves every
// chunk non-empty; all ranks compute the same.
struct ElementRange {
  size_t begin, end;
  size_t count() const { return end - begin; }
};
ElementRange elements_of(ChunkRange range, uint32_t chunks, size_t count);

}  // namespace unisono
