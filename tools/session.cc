// SPDX-License-Identifier: Apache-2.0
#include "tools/session.h"

#include <fmt/format.h>

#include "algorithms/registry.h"
#include "base/text.h"

namespace unisono {
namespace {

constexpr int kDefaultRanks = 2;

// Rank 0's outputs.
class Sinks {
 public:
  static Result<Sinks> open(const MeasureOptions& options) {
    Sinks sinks;
    if (!options.json.empty()) UNISONO_RETURN_IF_ERROR(open_one(options.json, sinks.json_));
    if (!options.csv.empty()) {
      UNISONO_RETURN_IF_ERROR(open_one(options.csv, sinks.csv_));
      UNISONO_RETURN_IF_ERROR(sinks.csv_->write(csv_header() + "\n"));
    }
    if (options.json != "-" && options.csv != "-") sinks.table_ = Output::standard();
    return sinks;
  }

  Status show(const std::string& text) { return table_ ? table_->write(text) : Status(); }
  Status keep(const Record& record) {
    if (json_) UNISONO_RETURN_IF_ERROR(json_->write(to_json(record) + "\n"));
    if (csv_) UNISONO_RETURN_IF_ERROR(csv_->write(to_csv(record) + "\n"));
    return Status();
  }

 private:
  static Status open_one(const std::string& path, std::optional<Output>& sink) {
    auto output = Output::open(path);
    if (!output.ok()) return output.status();
    sink = output.take();
    return Status();
  }
  std::optional<Output> table_, json_, csv_;
};

// One rank's way through all cases.
class Sweep {
 public:
  Sweep(Session session, std::string_view command, Presentation presentation)
      : session_(std::move(session)),
        command_(command),
        presentation_(std::move(presentation)),
        prints_(session_.communicator.rank() == 0),
        cases_(session_.options.types.size() * session_.options.ops.size() *
               session_.options.bytes.size()) {}

  Status run() {
    UNISONO_RETURN_IF_ERROR(check_size());
    Status opened;
    if (prints_) {
      auto sinks = Sinks::open(session_.options);
      if (sinks.ok()) sinks_ = sinks.take();
      opened = sinks.status();
    }
    UNISONO_RETURN_IF_ERROR(agree(session_.communicator, opened));
    auto meter = Meter::create(session_.communicator, session_.world, session_.options.largest_bytes(),
                               session_.options.mapped);
    if (!meter.ok()) return meter.status();
    for (const DataType type : session_.options.types) {
      for (const ReduceOp op : session_.options.ops) {
        if (prints_) written_ = sinks_.show(presentation_.header(session_));
        for (const uint64_t bytes : session_.options.bytes)
          UNISONO_RETURN_IF_ERROR(run_case(**meter, type, op, bytes));
      }
    }
    if (prints_ && presentation_.footer) written_ = sinks_.show(presentation_.footer(session_));
    UNISONO_RETURN_IF_ERROR(agree(session_.communicator, written_));
    if (wrong_rows_ == 0) return Status();
    return Status(StatusCode::kInternal, fmt::format("{} of {} results are wrong; the first: {}",
                                                     wrong_rows_, rows_, fault_));
  }

 private:
  Status check_size() const {
    const int size = session_.communicator.size();
    const int asked = session_.options.ranks.value_or(size);
    const FloatInputs* data = session_.options.pattern.data;
    if (data != nullptr && data->rows() != 1 && data->rows() != static_cast<size_t>(size))
      return invalid_argument(fmt::format(
          "--data: the file has {} vectors, expected {}, one a rank, or one", data->rows(), size));
    if (asked == size) return Status();
    return invalid_argument(
        fmt::format("--ranks {}: expected {}, which the launcher started", asked, size));
  }

  Status run_case(Meter& meter, DataType type, ReduceOp op, uint64_t bytes) {
    MeasureCase which = session_.options.pattern;
    which.type = type;
    which.op = op;
    which.count = bytes / size_of(type);
    auto candidates = presentation_.candidates(session_, which);
    const Status ready = !candidates.ok() ? candidates.status() : written_;
    UNISONO_RETURN_IF_ERROR(agree(session_.communicator, ready));
    ++case_;
    if (prints_)
      progress_.show(fmt::format("unisono {}: {} {} {}, {} of {} cases", command_,
                                 format_bytes(bytes), name_of(type), name_of(op), case_, cases_));
    const auto measured = meter.measure(which, *candidates);
    progress_.clear();
    if (!measured.ok()) return measured.status();
    for (size_t i = 0; i < measured->size(); ++i)
      count_row(which, (*candidates)[i], (*measured)[i]);
    if (prints_) written_ = print(which, *candidates, *measured);
    return Status();
  }

  void count_row(const MeasureCase& which, const Candidate& candidate,
                 const Measurement& measured) {
    ++rows_;
    if (measured.right()) return;
    if (wrong_rows_++ == 0)
      fault_ = fmt::format("{} {} {} {}: {}", candidate.label, format_bytes(which.bytes()),
                           name_of(which.type), name_of(which.op), measured.fault);
  }

  Status print(const MeasureCase& which, std::span<const Candidate> candidates,
               std::span<const Measurement> measured) {
    for (const Measurement& m : measured)
      UNISONO_RETURN_IF_ERROR(sinks_.keep(session_.record(which, m)));
    return sinks_.show(presentation_.show(session_, which, candidates, measured));
  }

  const Session session_;
  const std::string_view command_;
  const Presentation presentation_;
  const bool prints_;
  const size_t cases_;
  size_t case_ = 0, rows_ = 0, wrong_rows_ = 0;
  std::string fault_;  // of the first wrong row
  Sinks sinks_;
  Status written_;  // rank 0: how the last write went; told to all ranks before the next case
  Progress progress_;
};

}  // namespace

std::string Session::header() const {
  const MeasureCase& pattern = options.pattern;
  const auto plan = communicator.plan({.count = 1, .choice = {}});
  std::string header = fmt::format(
      "# all_reduce, {} rank{} ({}) on {} host{}, transport {}, {}{}\n", communicator.size(),
      communicator.size() == 1 ? "" : "s", options.as_threads ? "threads" : "processes",
      world.hosts, world.hosts == 1 ? "" : "s", plan.ok() ? plan->transport : "unknown",
      pattern.in_place ? "in place" : "out of place", options.mapped ? ", buffers of unisono_alloc" : "");
  header += fmt::format(
      "# timed: {}; up to {} batches of calls{}; a sample is the slowest rank's time\n",
      pattern.fresh ? "each rank rewrites its input, barrier, then one blocking call (fresh)"
                    : "barrier, then one blocking call; inputs are left alone (hot)",
      format_bytes(kBatchedBytes), pattern.fresh ? ", each with its rewrite" : "");
  return header;
}

Record Session::record(const MeasureCase& which, const Measurement& measured) const {
  Choice choice = measured.plan.choice;
  const std::string codec = std::exchange(choice.codec, "none");
  return {.algorithm = to_string(choice, algorithms()),
          .codec = codec,
          .form = measured.plan.ran,
          .dtype = which.type,
          .op = which.op,
          .ranks = communicator.size(),
          .hosts = world.hosts,
          .transport = measured.plan.transport,
          .bytes = which.bytes(),
          .count = which.count,
          .in_place = which.in_place,
          .time_us = statistics_of(measured.samples_us),
          .wire_bytes = measured.wire_bytes,
          .wrong = measured.wrong,
          .max_error = measured.max_error,
          .relative_error = measured.relative_error,
          .share_of_bound = measured.share_of_bound,
          .codec_cost = measured.codec_cost,
          .bit_identical = measured.bit_identical};
}

Result<std::vector<Candidate>> able_candidates(const Session& session, const MeasureCase& which) {
  if (!session.options.every_candidate) return session.options.candidates;
  std::vector<Candidate> able;
  for (const Candidate& candidate : session.options.candidates) {
    const auto plan = session.communicator.plan(
        {.count = which.count, .type = which.type, .op = which.op, .choice = candidate.choice});
    if (plan.ok())
      able.push_back(candidate);
    else if (plan.status().code() != StatusCode::kUnsupported)
      return plan.status();
  }
  return able;
}

Status run_sweep_on(Communicator& communicator, const MeasureOptions& options,
                    std::string_view command, Presentation presentation) {
  const auto world = survey(communicator);
  if (!world.ok()) return world.status();
  return Sweep({options, communicator, *world}, command, std::move(presentation)).run();
}

Result<int> run_sweep(const MeasureOptions& options, std::string_view command,
                      const std::function<Presentation()>& make_presentation) {
  const JobOptions job{command, options.ranks.value_or(kDefaultRanks), options.as_threads,
                       options.transport};
  return run_job(job, [&](Communicator& communicator) {
    return run_sweep_on(communicator, options, command, make_presentation());
  });
}

}  // namespace unisono
