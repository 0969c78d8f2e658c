// SPDX-License-Identifier: Apache-2.0
// Measuring and checking all-reduce calls.
//
// A timed call is: rewrite my input (unless hot), barrier, call. Up to 4 KiB a sample is a batch of
// calls, each with its rewrite, and their mean. A sample is the slowest rank's time. Candidates
// take turns, one sample each.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "communicator/communicator.h"
#include "tools/check.h"
#include "tools/codec_cost.h"
#include "tools/codec_reference.h"
#include "tools/float_inputs.h"
#include "tools/memory.h"
#include "tools/world.h"

namespace unisono {

inline constexpr uint64_t kBatchedBytes = 4096;  // up to here a sample is a batch

struct Candidate {
  std::string label;
  std::optional<Choice> choice;  // empty: the runtime picks
};

struct MeasureCase {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  size_t count = 0;
  bool in_place = false;
  bool fresh = true;              // rewrite the input before every call
  bool check = true;              // results of both input sets, and of the last timed call
  std::optional<int> iterations;  // samples; empty: what 0.1 s a candidate allows, 5 to 1000
  // Inputs as a codec meets them, where none runs too; for float32 and ops but prod.
  bool gradients = false;
  const FloatInputs* data = nullptr;  // in place of generated inputs, as above; outlives the measurement
  std::optional<int> warmup;      // untimed calls; empty: what 20 ms a candidate allow, at most 50

  uint64_t bytes() const { return count * size_of(type); }
};

// Of one candidate; the same on all ranks but for `plan`.
struct Measurement {
  CallPlan plan;
  uint64_t wire_bytes = 0;         // that the busiest rank sends
  std::vector<double> samples_us;  // in the order in which they were taken
  uint64_t wrong = 0;              // elements, over all ranks and checked calls
  double max_error = 0;       // against the float64 reference, over all ranks and checked calls
  // Through a codec, or of a user's data; rank 0's, and so all ranks' that have its bits:
  std::optional<double> relative_error;  // L2, of the checked calls
  std::optional<double> share_of_bound;  // max_error, where the bound around the element is 1
  std::optional<CodecCost> codec_cost;   // rank 0's
  bool bit_identical = true;  // all ranks, in every checked call
  std::string fault;          // the first that was found, unless right()

  bool right() const { return wrong == 0 && bit_identical; }
};

// One rank's part in the measurements; owns its buffers. All functions are collective: all ranks
// call them with the same arguments.
class Meter {
 public:
  // `communicator` must outlive it; `largest_bytes` is the longest vector to come. kInvalidArgument
  // on all ranks, before memory is touched, when the buffers of a host's ranks do not fit there. `mapped`: buffers
  // come from the communicator's allocate(), and stay until its end.
  static Result<std::unique_ptr<Meter>> create(Communicator& communicator, const World& world,
                                               uint64_t largest_bytes, bool mapped);
  ~Meter();

  // One measurement a candidate, in their order. Errors are those of the communicator.
  Result<std::vector<Measurement>> measure(const MeasureCase& which,
                                           std::span<const Candidate> candidates);

 private:
  struct Runner;  // a candidate at work
  struct Pace {   // how long to measure; rank 0 decides
    int warmup, samples, batch;
  };

  Meter(Communicator& communicator, const World& world);

  const FloatInputs& floats(const MeasureCase& which);
  Status prepare_floats(Runner& runner);
  const Problem& problem(InputSet set, const MeasureCase& which);
  void place(Runner& runner);
  void rewrite(Runner& runner, InputSet set);
  Status barrier() { return communicator_.all_reduce(barrier_); }
  Status checked_call(Runner& runner, InputSet set);
  void check_output(Runner& runner, InputSet set);
  Status sample(Runner& runner, int batch, double& time_us);
  Result<Pace> agree_on_pace(std::span<Runner> runners);
  Status run(std::span<Runner> runners, const Pace& pace);
  Result<std::vector<Measurement>> exchange(std::span<Runner> runners);

  Communicator& communicator_;
  const World world_;
  Pages pages_[2];  // unless mapped
  std::byte *input_ = nullptr, *output_ = nullptr;
  size_t shift_ = 0;  // of the newest input
  size_t calls_ = 0;
  int32_t token_ = 0, tokens_ = 0;
  AllReduceCall barrier_;  // the smallest all-reduce: nobody leaves before everybody has come

  struct CachedProblem {
    InputSet set;
    DataType type;
    ReduceOp op;
    Problem problem;
  };
  std::vector<std::unique_ptr<CachedProblem>> problems_;
  std::optional<FloatInputs> made_floats_;
};

}  // namespace unisono
