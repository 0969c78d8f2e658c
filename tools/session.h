// SPDX-License-Identifier: Apache-2.0
// The sweep that bench and compare share: measures every case, and hands each to what prints it.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "tools/job.h"
#include "tools/measure_options.h"
#include "tools/output.h"
#include "tools/record.h"

namespace unisono {

// What is printed about, on rank 0.
struct Session {
  const MeasureOptions& options;
  Communicator& communicator;
  World world;

  // Two lines: what runs where, and what is timed.
  std::string header() const;
  Record record(const MeasureCase& which, const Measurement& measured) const;
};

// How a command differs. Called by all ranks but for `header` and `show`, which only rank 0 calls.
struct Presentation {
  // What to measure for a case.
  std::function<Result<std::vector<Candidate>>(const Session&, const MeasureCase&)> candidates;
  // Text above the rows of one type and op; of a measured case; and below all.
  std::function<std::string(const Session&)> header;
  std::function<std::string(const Session&, const MeasureCase&, std::span<const Candidate>,
                            std::span<const Measurement>)>
      show;
  std::function<std::string(const Session&)> footer;
};

// One rank's part: measures every case. Collective. kInternal on all ranks when results are wrong.
Status run_sweep_on(Communicator& communicator, const MeasureOptions& options,
                    std::string_view command, Presentation presentation);

// The job of bench and compare. Returns the exit status; errors as run_job, and kInternal when
// results are wrong.
Result<int> run_sweep(const MeasureOptions& options, std::string_view command,
                      const std::function<Presentation()>& make_presentation);

// The candidates of the options that can serve. kUnsupported for one that was named and cannot.
Result<std::vector<Candidate>> able_candidates(const Session& session, const MeasureCase& which);

}  // namespace unisono
