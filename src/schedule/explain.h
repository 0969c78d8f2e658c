// SPDX-License-Identifier: Apache-2.0
// explain: a schedule as text, one step a line.
#pragma once

#include <string>

#include "schedule/schedule.h"
#include "schedule/verify.h"

namespace unisono {

// "recv_reduce", …
std::string_view name_of(StepKind kind);
// "chunk 2", "chunks 2…5"
std::string to_string(ChunkRange chunks);
// "input", "output", "scratch[1]", "encoded[0]"
std::string to_string(Place place);

// One step without its edges: "recv_reduce chunk 2  output = from 1 #0 + input". Operands stand in
// the order in which they are folded; #n is the message's number between the two ranks.
std::string explain_step(const Schedule& schedule, size_t step);

// All steps, a title first:
//
//   all_reduce, rank 2 of 3: 3 chunks, 9 steps
//      0 send        chunk 2   input to 0 #0
//      1 recv_reduce chunk 1   output = from 1 #0 + input
//      2 send        chunk 1   output to 0 #1                     after 1
//
// Precondition of both: indices in range, as verify() checks.
std::string explain(const Schedule& schedule);

// "a contribution is encoded up to 2 times, in sums of up to 8; added error up to 0.0107 times the
// largest contribution"
std::string explain(const Quantisation& quantisation);

}  // namespace unisono
