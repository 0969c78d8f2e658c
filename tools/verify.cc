// SPDX-License-Identifier: Apache-2.0
// unisono verify: proves algorithms over a range of rank counts, and counts what they cost.
#include "schedule/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "algorithms/registry.h"
#include "tools/measure_options.h"
#include "tools/output.h"
#include "tools/sweep.h"
#include "tools/table.h"

namespace unisono {
namespace {

constexpr int kMostSlices = 3;

const Table kTable({{"algorithm", 22, Align::kLeft},
                    {"proven", 12},
                    {"at ranks", 8},
                    {"steps", 6},
                    {"sent n", 8},
                    {"received n", 10},
                    {"rounds", 6},
                    {"fan-in", 6},
                    {"additions", 10, Align::kLeft}});

// What is known of one algorithm; the costs are those of the largest rank count.
struct Proof {
  int proven = 0;
  int asked = 0;  // that the algorithm supports
  int ranks = 0;
  Verification cost;
  std::string fault;  // the first
};

Proof prove(const Choice& choice, const Algorithm& algorithm, const std::vector<int>& sizes,
            Progress& progress) {
  Proof proof;
  for (const int size : sizes) {
    const Shape shape{.size = size, .parameters = choice.parameters};
    if (!algorithm.supports(shape).ok()) continue;
    ++proof.asked;
    progress.show(fmt::format("unisono verify: {} at {} ranks", choice.algorithm, size));
    const std::vector<Schedule> schedules = build_all(algorithm, shape);
    bool ok = true;
    for (int slices = 1; slices <= kMostSlices && ok; ++slices) {
      Verification verification = verify(schedules, {.slices = slices, .credits = 1});
      ok = verification.ok();
      if (!ok && proof.fault.empty())
        proof.fault = fmt::format("{} at {} ranks with {} slices: {}: {}", choice.algorithm, size,
                                  slices, name_of(verification.fault), verification.explanation);
      if (ok && slices == 1 && size >= proof.ranks) {
        proof.ranks = size;
        proof.cost = std::move(verification);
      }
    }
    proof.proven += ok;
  }
  return proof;
}

std::string row_of(const std::string& label, const Proof& proof) {
  const std::string proven = fmt::format("{} of {}", proof.proven, proof.asked);
  if (proof.ranks == 0) return kTable.row({label, proven, "-"});
  const auto most = [&](uint64_t RankCost::*field) {
    return std::ranges::max(proof.cost.ranks, {}, field).*field;
  };
  const auto vectors = [&](uint64_t RankCost::*field) {
    return fmt::format("{:.3f}", static_cast<double>(most(field)) / proof.cost.chunks);
  };
  return kTable.row({label, proven, std::to_string(proof.ranks),
                     std::to_string(most(&RankCost::steps)), vectors(&RankCost::chunks_sent),
                     vectors(&RankCost::chunks_received), std::to_string(proof.cost.rounds),
                     std::to_string(proof.cost.fan_in), std::string(name_of(proof.cost.order))});
}

class Verify final : public Command {
 public:
  std::string_view name() const override { return "verify"; }
  std::string_view summary() const override {
    return "prove algorithms over a range of rank counts, and count their steps and bytes";
  }
  std::string_view example() const override {
    return "unisono verify --ranks 1:64 --algorithm all";
  }

  void declare(Flags& flags) override {
    flags.text("-n,--ranks", ranks_, "SWEEP", "rank counts: FIRST:LAST, or a list");
    flags.text("--algorithm", algorithm_, "LIST", "all, or a list of algorithms with parameters");
  }

  Result<int> run() override {
    const auto sizes = parse_rank_sweep(ranks_);
    if (!sizes.ok()) return bad_value("--ranks", sizes.status());
    const auto candidates = parse_algorithms(algorithm_);
    if (!candidates.ok()) return candidates.status();
    for (const Candidate& candidate : *candidates)
      if (!candidate.choice) return bad_value("--algorithm", candidate.label, "algorithms, or all");
    Output output = Output::standard();
    UNISONO_RETURN_IF_ERROR(
        output.write("# proven with 1, 2 and 3 slices and one view of each peer; of the busiest "
                     "rank at the largest rank "
                     "count: steps, and "
                     "vectors of n bytes sent and received; rounds: longest chain of messages\n" +
                     kTable.header()));
    std::string fault;
    Progress progress;
    for (const Candidate& candidate : *candidates) {
      const Proof proof =
          prove(*candidate.choice, *find_algorithm(candidate.choice->algorithm), *sizes, progress);
      progress.clear();
      if (fault.empty()) fault = proof.fault;
      UNISONO_RETURN_IF_ERROR(output.write(row_of(candidate.label, proof)));
    }
    if (fault.empty()) return 0;
    return Status(StatusCode::kInternal, "not proven: " + fault);
  }

 private:
  std::string ranks_ = "1:16";
  std::string algorithm_ = "all";
};

}  // namespace

std::unique_ptr<Command> make_verify_command() {
  return std::make_unique<Verify>();
}

}  // namespace unisono
