// SPDX-License-Identifier: Apache-2.0
// verify: proves that the schedules of all ranks make an all-reduce, and counts what they cost.
//
// The ranks run symbolically. A value is an expression over the ranks that contribute to it. The
// proof holds for every element type, length and transport that keep the executor's rules:
//
//   - A step starts when its slice has started and all steps in its `after` have ended.
//   - A send ends, at the latest, when its receive has been posted.
//   - A recv is posted when it starts. A recv_reduce's views need no target, so they are posted, at
//     the latest, when all steps of its `after` but the sends have ended. They are held to its end.
//   - With `credits`, a slice in flight may hold that many views of one peer. They are given out in
//     program order, and one slice never takes another's.
//   - With `mapped_views`, a view is the sender's own memory: its send ends when the fold has.
//   - Slice s starts on a rank when slice s−depth has ended there.
//
// Every event then waits for a fixed set of other events: the system is a marked graph. Such a
// system either runs to its end in every interleaving or in none, so one run proves them all; and
// since all accesses that touch the same memory are ordered, every run computes the same values.
// Relaxing a rule (posting a view earlier, ending a send earlier) only takes waits away.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/algorithm.h"
#include "schedule/schedule.h"

namespace unisono {

enum class Fault : uint8_t {
  kNone,
  kMalformed,        // an index out of range, a step that makes no sense
  kMessages,         // sent and never received, received twice, not the same chunks on both sides
  kDeadlock,         // ranks wait for one another in a circle
  kRace,             // two accesses to one place, one of them a write, in no order
  kReadBeforeWrite,  // a value used before there is one
  kDoubleCount,      // a rank's contribution in a value twice
  kMissing,          // an output chunk without a value, or without some rank's contribution
  kOrder,            // two ranks add in different orders, so their bits may differ
  kFinish,           // `finishes` is not on exactly the folds that hold every contributor
};
std::string_view name_of(Fault fault);

// In which order the contributions of an element are added, from the most to the least predictable.
enum class AdditionOrder : uint8_t {
  kOnePass,   // one fold over ranks 0…p−1
  kLeftFold,  // several folds, ((0 + 1) + 2) + …
  kOther,     // the same on all ranks, but neither of these
};
std::string_view name_of(AdditionOrder order);  // "one pass", "left fold", "other"

// What a codec does to the sum of an element.
struct Quantisation {
  uint32_t most = 0;  // the largest number of times that a contribution is encoded on its way
  uint32_t held = 0;  // the most contributions that an encoded sum holds
  // The largest |result − exact| of a sum of float32, where 1 is the largest |contribution| around:
  // what the encodings and the additions add up to. An average has 1/contributors of it; min and max
  // at most as much. Without residuals, which carry errors from call to call.
  double error = 0;
};

struct VerifyOptions {
  int slices = 1;
  int depth = 2;              // slices in flight
  int credits = 0;            // views of one peer that a slice in flight may hold; 0: any number
  bool mapped_views = false;  // see above
  std::vector<int> servers = {};  // ranks that contribute nothing, ascending
  double relative_error = 0;      // of the codec (Codec::relative_error)
};

// What one rank does on one slice.
struct RankCost {
  uint64_t steps = 0;
  uint64_t messages_sent = 0, messages_received = 0;
  uint64_t chunks_sent = 0,
           chunks_received = 0;  // of Verification::chunks, which are the whole vector
};

struct Verification {
  Fault fault = Fault::kNone;
  std::string explanation;  // of the first fault: rank, step, chunk, what and why
  bool ok() const { return fault == Fault::kNone; }

  // Of one slice, and only when ok. Every message takes one round, and nothing else takes time.
  uint32_t chunks = 1;
  std::vector<RankCost> ranks;
  uint32_t rounds = 0;  // the longest chain of messages that wait for one another
  uint32_t fan_in = 0;  // most messages that reach one rank in one round
  AdditionOrder order = AdditionOrder::kOnePass;
  Quantisation quantisation;
};

// `schedules` holds every rank's, in rank order. They are not trusted: whatever they hold ends in a
// Verification.
Verification verify(std::span<const Schedule> schedules, const VerifyOptions& options = {});

// The schedules of all ranks of a shape; its `rank` is ignored. Precondition: supports(shape).ok().
std::vector<Schedule> build_all(const Algorithm& algorithm, Shape shape);

}  // namespace unisono
