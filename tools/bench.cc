// SPDX-License-Identifier: Apache-2.0
// unisono bench: a table like nccl-tests', one line for each size and algorithm.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "tools/error_columns.h"
#include "tools/session.h"
#include "tools/table.h"

namespace unisono {
namespace {

const std::vector<Column> kColumns{{"size", 8},
                                   {"count", 11},
                                   {"type", 4, Align::kLeft},
                                   {"op", 4, Align::kLeft},
                                   {"algorithm", 26, Align::kLeft},
                                   {"codec", 6, Align::kLeft},
                                   {"form", 10, Align::kLeft},
                                   {"min µs", 8},
                                   {"median µs", 9},
                                   {"p99 µs", 8},
                                   {"algbw GB/s", 10},
                                   {"busbw GB/s", 10},
                                   {"wire bytes", 11},
                                   {"wrong", 5}};

// With a codec or a user's data, where errors and costs are of interest.
bool shows_errors(const MeasureOptions& options) {
  return !options.codecs.empty() || options.data != nullptr;
}

Table table_for(const MeasureOptions& options) {
  std::vector<Column> columns = kColumns;
  if (shows_errors(options)) std::ranges::copy(kErrorColumns, std::back_inserter(columns));
  return Table(std::move(columns));
}

std::string row_of(const MeasureOptions& options, const Record& r, const Measurement& measured,
                   bool checked) {
  const std::string wrong = !checked             ? "-"
                            : measured.right()   ? "0"
                            : measured.wrong > 0 ? std::to_string(measured.wrong)
                                                 : "bits differ";
  std::vector<std::string> cells{
      format_bytes(r.bytes),
      std::to_string(r.count),
      std::string(name_of(r.dtype)),
      std::string(name_of(r.op)),
      r.algorithm,
      r.codec,
      r.form,
      format_us(r.time_us.min),
      format_us(r.time_us.median),
      format_us(r.time_us.p99) + (r.time_us.samples < kSamplesForP99 ? "m" : " "),
      format_GBps(algbw_GBps(r.bytes, r.time_us.median)),
      format_GBps(busbw_GBps(r.bytes, r.time_us.median, r.ranks)),
      std::to_string(r.wire_bytes),
      wrong};
  if (shows_errors(options)) std::ranges::copy(error_cells(r), std::back_inserter(cells));
  return table_for(options).row(cells);
}

Presentation present() {
  return {
      .candidates = able_candidates,
      .header =
          [](const Session& session) {
            return session.header() +
                   "# form: what ran the algorithm; wire bytes: what the busiest rank sends; p99 with m: the "
                   "largest of fewer than 100 samples\n" +
                   (shows_errors(session.options) ? std::string(kErrorLegend) : "") +
                   table_for(session.options).header();
          },
      .show =
          [](const Session& session, const MeasureCase& which, std::span<const Candidate>,
             std::span<const Measurement> measured) {
            std::string rows;
            for (const Measurement& m : measured)
              rows += row_of(session.options, session.record(which, m), m, which.check);
            return rows;
          },
      .footer = {}};
}

class Bench final : public Command {
 public:
  std::string_view name() const override { return "bench"; }
  std::string_view summary() const override {
    return "time and check all-reduce over a sweep of sizes";
  }
  std::string_view example() const override {
    return "unisono bench -n 4 --bytes 8:64M:x4 --algorithm auto\n"
           "mpirun -n 4 unisono bench -n 4 -b 1K -e 16M -f 2 --json results.json";
  }
  void declare(Flags& flags) override { flags_.declare(flags); }
  Result<int> run() override {
    const auto options = parse(flags_);
    if (!options.ok()) return options.status();
    return run_sweep(*options, name(), present);
  }

 private:
  MeasureFlags flags_{.algorithm = "auto"};
};

}  // namespace

std::unique_ptr<Command> make_bench_command() {
  return std::make_unique<Bench>();
}

}  // namespace unisono
