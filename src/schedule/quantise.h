// SPDX-License-Identifier: Apache-2.0
// quantise: puts a codec into any schedule. It knows chunks, and no codec.
//
//   send chunk 2  input to 0          encode chunk 2  encoded = encode(input)
//                                     send   chunk 2  encoded to 0
//   recv chunk 1  output from 2       recv   chunk 1  encoded from 2
//                                     decode chunk 1  output = decode(encoded)
//   send chunk 1  output to 0         send   chunk 1  encoded to 0              the same bytes
//
// The rules by which all ranks end with equal bits:
//   - A message is encoded where `on_link` says so. A *result*, a value that holds every
//   contributor,
//     is always encoded: else a rank that only hands it on would have to encode it again.
//   - A value that leaves a rank encoded is encoded once, before anything else is done with it, and
//     that rank too goes on with its decoded form. What arrived encoded is handed on as the same
//     bytes.
//   - Where several ranks compute the same result and one of them sends it (recursive_doubling,
//   when
//     it hands the result back), all of them encode it.
//
// Error feedback: each element of a rank's residuals is used at most once in a schedule. The first
// value of a chunk that leaves a rank before the result takes the worker's residual, if no other
// rank can hold the same value; a result that one rank alone computes takes the owner's. An owner's
// own part, which is added without being encoded, takes its worker residual along.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "schedule/algorithm.h"
#include "schedule/schedule.h"
#include "schedule/shape.h"

namespace unisono {

// Whether messages between two ranks are encoded; the same on all ranks. Empty: all are.
using OnLink = std::function<bool(int from, int to)>;

OnLink on_links(CodecLinks links, const Shape& shape);

// The schedules of all ranks, in rank order. With an `on_link`, what a recv takes must be a result,
// and ranks that compute the same sums must do so from the same encoded messages: verify() tells.
std::vector<Schedule> quantise(std::span<const Schedule> schedules, int contributors,
                               const OnLink& on_link = {});

// The same for my rank alone. Builds schedules of other ranks where mine depends on what they send.
// Precondition: supports(shape).ok().
Schedule build_quantised(const Algorithm& algorithm, const Shape& shape,
                         const OnLink& on_link = {});

}  // namespace unisono
