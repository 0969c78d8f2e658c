// SPDX-License-Identifier: Apache-2.0
// unisono compare: every algorithm side by side over a sweep of sizes, and what the runtime's pick
// loses.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "algorithms/registry.h"
#include "base/text.h"
#include "tools/error_columns.h"
#include "tools/session.h"
#include "tools/table.h"

namespace unisono {
namespace {

double median_us(const Measurement& measured) {
  return statistics_of(measured.samples_us).median;
}

// One rank's view of the comparison; rank 0's is printed.
class Comparison {
 public:
  explicit Comparison(const MeasureOptions& options) : options_(options) {}

  // The columns, and the runtime's pick as one more where no column runs the same.
  Result<std::vector<Candidate>> candidates(const Session& session, const MeasureCase& which) {
    auto able = able_candidates(session, which);
    if (!able.ok()) return able;
    AllReduceCall call{.count = which.count, .type = which.type, .op = which.op, .choice = {}};
    const auto pick = session.communicator.plan(call);
    if (!pick.ok()) return pick.status();
    for (pick_ = 0; pick_ < able->size(); ++pick_) {
      call.choice = (*able)[pick_].choice;
      const auto plan = session.communicator.plan(call);
      if (!plan.ok()) return plan.status();
      if (plan->choice == pick->choice) return able;
    }
    able->push_back({"auto", std::nullopt});
    return able;
  }

  std::string header(const Session& session) const {
    return session.header() +
           "# median µs, candidates taking turns; * the fastest; auto: what the runtime picks, and "
           "by how "
           "much that is slower\n" +
           (options_.codecs.empty()
                ? std::string()
                : "# wire bytes and errors: of the codec's fastest algorithm\n" +
                      std::string(kErrorLegend)) +
           table().header();
  }

  std::string show(const Session& session, const MeasureCase& which,
                   std::span<const Candidate> candidates, std::span<const Measurement> measured) {
    std::vector<double> medians;
    for (const Measurement& m : measured) medians.push_back(median_us(m));
    const size_t best = static_cast<size_t>(std::ranges::min_element(medians) - medians.begin());
    wrong_.resize(options_.candidates.size() + 1);
    if (pick_ >= options_.candidates.size()) wrong_.back() += faults_of(measured[pick_]);
    std::string rows;
    for (size_t row = 0; row < rows_per_case(); ++row) {
      std::vector<std::string> cells{format_bytes(which.bytes()), std::string(name_of(which.type)),
                                     std::string(name_of(which.op))};
      if (!options_.codecs.empty()) cells.push_back(options_.codecs[row]);
      size_t fastest = candidates.size();  // of the row
      for (size_t column = 0; column < columns(); ++column) {
        const size_t index = row * columns() + column;
        const auto found =
            std::ranges::find(candidates, options_.candidates[index].label, &Candidate::label);
        const auto at = static_cast<size_t>(found - candidates.begin());
        const bool ran = found != candidates.end();
        cells.push_back(ran ? format_us(medians[at]) + (at == best ? "*" : " ") : "- ");
        if (!ran) continue;
        wrong_[index] += faults_of(measured[at]);
        if (fastest == candidates.size() || medians[at] < medians[fastest]) fastest = at;
      }
      cells.push_back(session.record(which, measured[pick_]).algorithm);
      cells.push_back(format_us(medians[pick_]));
      cells.push_back(fmt::format("{:.0f}", 100 * (medians[pick_] / medians[best] - 1)));
      if (!options_.codecs.empty() && fastest < candidates.size()) {
        const Record record = session.record(which, measured[fastest]);
        cells.push_back(std::to_string(record.wire_bytes));
        std::ranges::copy(error_cells(record), std::back_inserter(cells));
      }
      rows += table().row(cells);
    }
    return rows;
  }

  std::string footer() const {
    std::vector<std::string> cells{"errors", "", ""};
    if (!options_.codecs.empty()) cells.emplace_back();
    uint64_t sum = 0;
    for (const uint64_t wrong : wrong_) sum += wrong;
    for (size_t column = 0; column < columns(); ++column) {
      uint64_t wrong = 0;
      for (size_t at = column; at + 1 < wrong_.size(); at += columns()) wrong += wrong_[at];
      cells.push_back(options_.pattern.check ? std::to_string(wrong) + " " : "- ");
    }
    cells.push_back(options_.pattern.check ? fmt::format("sum {}", sum) : "not checked");
    return table().row(cells);
  }

 private:
  // Wrong elements; one for equal values in other bits.
  static uint64_t faults_of(const Measurement& m) {
    return m.wrong > 0 ? m.wrong : !m.bit_identical;
  }

  std::string label_of(const Candidate& candidate) const {
    if (!candidate.choice || options_.codecs.empty()) return candidate.label;
    Choice choice = *candidate.choice;
    choice.codec = "none";
    return to_string(choice, algorithms());
  }

  // Candidates stand codec by codec.
  size_t rows_per_case() const { return std::max<size_t>(options_.codecs.size(), 1); }
  size_t columns() const { return options_.candidates.size() / rows_per_case(); }

  Table table() const {
    std::vector<Column> columns{{"size", 6}, {"type", 4, Align::kLeft}, {"op", 4, Align::kLeft}};
    if (!options_.codecs.empty()) columns.push_back({"codec", 6, Align::kLeft});
    for (size_t column = 0; column < this->columns(); ++column)
      columns.push_back({label_of(options_.candidates[column]) + " ", 8});
    columns.push_back({"auto", 18, Align::kLeft});
    columns.push_back({"µs", 7});
    columns.push_back({"loses %", 7});
    if (!options_.codecs.empty()) {
      columns.push_back({"wire bytes", 11});
      std::ranges::copy(kErrorColumns, std::back_inserter(columns));
    }
    return Table(std::move(columns));
  }

  const MeasureOptions& options_;
  size_t pick_ = 0;              // of the newest candidates
  std::vector<uint64_t> wrong_;  // a candidate; the last is the pick's own
};

Presentation present(const MeasureOptions& options) {
  const auto comparison = std::make_shared<Comparison>(options);
  return {.candidates =
              [comparison](const Session& session, const MeasureCase& which) {
                return comparison->candidates(session, which);
              },
          .header = [comparison](const Session& session) { return comparison->header(session); },
          .show =
              [comparison](const Session& session, const MeasureCase& which,
                           std::span<const Candidate> candidates,
                           std::span<const Measurement> measured) {
                return comparison->show(session, which, candidates, measured);
              },
          .footer = [comparison](const Session&) { return comparison->footer(); }};
}

class Compare final : public Command {
 public:
  std::string_view name() const override { return "compare"; }
  std::string_view summary() const override {
    return "every algorithm side by side over a sweep of sizes, with the runtime's own pick";
  }
  std::string_view example() const override {
    return "unisono compare -n 4 --bytes 8:64M:x4\n"
           "unisono compare -n 4 --bytes 1M --algorithm 'ring,ring depth=8,sharded_ps(window=2)'";
  }
  void declare(Flags& flags) override { flags_.declare(flags); }
  Result<int> run() override {
    const auto options = parse(flags_);
    if (!options.ok()) return options.status();
    return run_sweep(*options, name(), [&] { return present(*options); });
  }

 private:
  MeasureFlags flags_{.algorithm = "all"};
};

}  // namespace

std::unique_ptr<Command> make_compare_command() {
  return std::make_unique<Compare>();
}

}  // namespace unisono
