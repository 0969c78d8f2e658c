// SPDX-License-Identifier: Apache-2.0
#include "tools/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "algorithms/registry.h"
#include "base/text.h"
#include "tools/rank_part.h"
#include "topology/host.h"

namespace unisono {
namespace {

constexpr int kPoison = 0xA5;
constexpr double kBudgetUs = 100e3, kWarmupBudgetUs = 20e3;  // a candidate
constexpr double kBatchUs = 50;                              // a batched sample lasts about
constexpr int kTrials = 2, kLeastBatch = 8, kMostBatch = 64;
constexpr int kSmallRounds = 8;  // checked calls of a vector that is shorter than the pattern
constexpr uint64_t kRotatedBytes = 128 << 10;
constexpr uint64_t kMostSlots = 8;

// Small vectors take turns in several buffers, as the gradients of a training step do. A power of two.
uint64_t slots_for(uint64_t bytes) {
  return std::bit_floor(std::clamp<uint64_t>(kRotatedBytes / std::max<uint64_t>(bytes, 1), 1, kMostSlots));
}

uint64_t region_bytes(uint64_t largest_bytes) {
  return std::max(round_to_pages(largest_bytes),
                  kMostSlots * round_to_pages(kRotatedBytes / kMostSlots));
}

double now_us() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

int clamped(double value, int low, int high) {
  return static_cast<int>(std::clamp<double>(value, low, high));
}

}  // namespace

struct Meter::Runner {
  const MeasureCase& which;
  uint64_t slots, stride;  // of the region that calls take turns in
  Measurement measurement;
  AllReduceCall call;
  RankPart part;
  bool has_floats = false;                  // inputs are floats(), not a problem's
  std::optional<CodecReference> reference;  // rank 0's, of such calls
};

Meter::Meter(Communicator& communicator, const World& world)
    : communicator_(communicator), world_(world) {
  barrier_ = {.input = &token_,
              .output = &tokens_,
              .count = 1,
              .type = DataType::kInt32,
              .op = ReduceOp::kSum,
              .choice = *parse_choice("one_shot", algorithms())};
}

Meter::~Meter() = default;

Result<std::unique_ptr<Meter>> Meter::create(Communicator& communicator, const World& world,
                                             uint64_t largest_bytes, bool mapped) {
  Status status;
  auto meter = std::unique_ptr<Meter>(new Meter(communicator, world));
  const uint64_t most = available_memory() / (2 * static_cast<uint64_t>(world.local_ranks));
  if (largest_bytes > most) {
    status = invalid_argument(fmt::format(
        "--bytes {}: with an input and an output for each of {} ranks on this host, memory is "
        "available for at most {}M",
        format_bytes(largest_bytes), world.local_ranks, most >> 20));
  }
  UNISONO_RETURN_IF_ERROR(agree(communicator, status));
  if (mapped) {
    for (std::byte** buffer : {&meter->input_, &meter->output_}) {
      const auto allocated = communicator.allocate(region_bytes(largest_bytes));
      if (!allocated.ok()) return allocated.status();
      *buffer = static_cast<std::byte*>(*allocated);
    }
    return meter;
  }
  for (Pages& pages : meter->pages_) {
    auto allocated = Pages::allocate(region_bytes(largest_bytes));
    if (!allocated.ok())
      status = allocated.status();
    else
      pages = allocated.take();
  }
  meter->input_ = meter->pages_[0].data();
  meter->output_ = meter->pages_[1].data();
  UNISONO_RETURN_IF_ERROR(agree(communicator, status));
  return meter;
}

const Problem& Meter::problem(InputSet set, const MeasureCase& which) {
  for (const auto& cached : problems_)
    if (cached->set == set && cached->type == which.type && cached->op == which.op)
      return cached->problem;
  problems_.push_back(std::make_unique<CachedProblem>(CachedProblem{
      set, which.type, which.op,
      Problem(set, which.type, which.op, communicator_.size(), communicator_.rank())}));
  return problems_.back()->problem;
}

void Meter::place(Runner& runner) {
  const uint64_t at = (calls_++ & (runner.slots - 1)) * runner.stride;
  runner.call.output = output_ + at;
  runner.call.input = runner.which.in_place ? runner.call.output : input_ + at;
}

const FloatInputs& Meter::floats(const MeasureCase& which) {
  if (which.data != nullptr) return *which.data;
  if (!made_floats_) made_floats_ = FloatInputs::made(communicator_.size());
  return *made_floats_;
}

// Where the result depends on the values: the inputs, the reference, and the codec's cost.
Status Meter::prepare_floats(Runner& runner) {
  const Choice& choice = runner.measurement.plan.choice;
  const auto codec = find_codec(choice.codec);
  if (!codec.ok()) return codec.status();
  const MeasureCase& which = runner.which;
  runner.has_floats =
      *codec != nullptr || ((which.gradients || which.data != nullptr) &&
                            which.type == DataType::kFloat32 && which.op != ReduceOp::kProd);
  if (!runner.has_floats || communicator_.rank() != 0) return Status();
  const Algorithm& algorithm = *find_algorithm(choice.algorithm);
  const Shape shape{
      .size = communicator_.size(), .parameters = choice.parameters, .groups = world_.host_of};
  if (which.check) runner.reference.emplace(algorithm, shape, *codec, which.op, choice.links);
  if (*codec == nullptr || which.count == 0) return Status();
  AllReduceCall plain = runner.call;
  plain.choice = choice;
  plain.choice->codec = "none";
  const auto plan = communicator_.plan(plain);
  if (!plan.ok()) return plan.status();
  auto* values = reinterpret_cast<float*>(input_);
  floats(which).write(0, 0, 0, which.count, values);
  runner.part.codec_cost =
      measure_codec(**codec, values, which.count, algorithm, shape, choice.links, plan->wire_bytes,
                    runner.part.wire_bytes);
  return Status();
}

void Meter::rewrite(Runner& runner, InputSet set) {
  shift_ = (shift_ + 131) % Problem::kPeriod;
  if (runner.has_floats)
    return floats(runner.which)
        .write(communicator_.rank(), shift_, 0, runner.which.count,
               const_cast<void*>(runner.call.input));
  problem(set, runner.which)
      .write_input(shift_, const_cast<void*>(runner.call.input), runner.which.count);
}

void Meter::check_output(Runner& runner, InputSet set) {
  const MeasureCase& which = runner.which;
  if (!runner.has_floats)
    runner.part.verdict.add(problem(set, which).check(shift_, runner.call.output, which.count));
  if (runner.reference)
    runner.part.verdict.add(runner.reference->check(
        [&](int rank, size_t first, size_t count, float* values) {
          floats(which).write(rank, shift_, first, count, values);
        },
        static_cast<const float*>(runner.call.output), which.count,
        runner.measurement.plan.slices));
  const uint64_t results[] = {runner.part.hash, hash_of(runner.call.output, which.bytes())};
  runner.part.hash = hash_of(results, sizeof(results));
}

Status Meter::checked_call(Runner& runner, InputSet set) {
  place(runner);
  if (runner.which.count > 0) std::memset(runner.call.output, kPoison, runner.which.bytes());
  rewrite(runner, set);
  UNISONO_RETURN_IF_ERROR(communicator_.all_reduce(runner.call));
  check_output(runner, set);
  return Status();
}

Status Meter::sample(Runner& runner, int batch, double& time_us) {
  const bool fresh = runner.which.fresh;
  double begin;
  if (batch > 0) {
    UNISONO_RETURN_IF_ERROR(barrier());
    begin = now_us();
    for (int i = 0; i < batch; ++i) {
      place(runner);
      if (fresh) rewrite(runner, InputSet::kExact);
      UNISONO_RETURN_IF_ERROR(communicator_.all_reduce(runner.call));
    }
  } else {
    place(runner);
    if (fresh) rewrite(runner, InputSet::kExact);
    UNISONO_RETURN_IF_ERROR(barrier());
    begin = now_us();
    UNISONO_RETURN_IF_ERROR(communicator_.all_reduce(runner.call));
  }
  time_us = (now_us() - begin) / std::max(batch, 1);
  return Status();
}

Result<Meter::Pace> Meter::agree_on_pace(std::span<Runner> runners) {
  const MeasureCase& which = runners.front().which;
  const bool batched = which.bytes() <= kBatchedBytes;
  const int trial_batch = batched ? kLeastBatch : 0;
  double sum_us = 0, shortest_us = kBudgetUs;
  for (Runner& runner : runners) {
    double best_us = kBudgetUs;
    for (int trial = 0; trial < kTrials; ++trial) {
      double time_us = 0;
      UNISONO_RETURN_IF_ERROR(sample(runner, trial_batch, time_us));
      best_us = std::min(best_us, time_us);
    }
    sum_us += best_us;
    shortest_us = std::min(shortest_us, best_us);
  }
  const double mean_us = std::max(sum_us / static_cast<double>(runners.size()), 0.01);
  Pace pace;
  pace.batch = batched ? clamped(kBatchUs / std::max(shortest_us, 0.01), kLeastBatch, kMostBatch) : 0;
  pace.samples =
      which.iterations.value_or(clamped(kBudgetUs / (mean_us * std::max(pace.batch, 1)), 5, 1000));
  pace.warmup = which.warmup.value_or(clamped(kWarmupBudgetUs / mean_us, 0, 50));
  const auto all = communicator_.all_gather({reinterpret_cast<const char*>(&pace), sizeof(pace)});
  if (!all.ok()) return all.status();
  if (all->front().size() != sizeof(pace)) return out_of_step(0);
  std::memcpy(&pace, all->front().data(), sizeof(pace));
  return pace;
}

Status Meter::run(std::span<Runner> runners, const Pace& pace) {
  double time_us = 0;
  for (Runner& runner : runners) {
    if (pace.batch > 0 && pace.warmup > 0) {
      UNISONO_RETURN_IF_ERROR(sample(runner, pace.warmup, time_us));
    } else {
      for (int i = 0; i < pace.warmup; ++i) UNISONO_RETURN_IF_ERROR(sample(runner, 0, time_us));
    }
  }
  for (int i = 0; i < pace.samples; ++i) {
    for (Runner& runner : runners) {
      UNISONO_RETURN_IF_ERROR(sample(runner, pace.batch, time_us));
      runner.part.times_us.push_back(time_us);
      // Inputs that were left alone hold what they held: only rewritten ones have a known result.
      if (i + 1 == pace.samples && runner.which.check && runner.which.fresh)
        check_output(runner, InputSet::kExact);
    }
  }
  return Status();
}

Result<std::vector<Measurement>> Meter::exchange(std::span<Runner> runners) {
  std::vector<RankPart> mine;
  for (Runner& runner : runners) mine.push_back(std::move(runner.part));
  const auto all = exchange_parts(communicator_, mine);
  if (!all.ok()) return all.status();
  std::vector<Measurement> measurements;
  for (size_t i = 0; i < runners.size(); ++i) {
    Runner& runner = runners[i];
    merge((*all)[i], runner.which.check, runner.has_floats, runner.measurement);
    measurements.push_back(std::move(runner.measurement));
  }
  return measurements;
}

Result<std::vector<Measurement>> Meter::measure(const MeasureCase& which,
                                                std::span<const Candidate> candidates) {
  std::vector<Runner> runners;
  Status prepared;
  for (const Candidate& candidate : candidates) {
    Runner runner{.which = which,
                  .slots = slots_for(which.bytes()),
                  .stride = round_to_pages(which.bytes()),
                  .measurement = {},
                  .call = {},
                  .part = {},
                  .reference = {}};
    runner.call.count = which.count;
    runner.call.type = which.type;
    runner.call.op = which.op;
    runner.call.choice = candidate.choice;
    auto plan = communicator_.plan(runner.call);
    if (!plan.ok()) return plan.status();
    runner.part.wire_bytes = plan->wire_bytes;
    runner.measurement.plan = plan.take();
    prepared = prepare_floats(runner);
    if (!prepared.ok()) break;
    runners.push_back(std::move(runner));
  }
  UNISONO_RETURN_IF_ERROR(agree(communicator_, prepared));
  const int rounds = which.count < Problem::kPeriod ? kSmallRounds : 1;
  for (Runner& runner : runners) {
    for (int round = 0; which.check && round < rounds; ++round) {
      UNISONO_RETURN_IF_ERROR(checked_call(runner, InputSet::kExact));
      if (depends_on_order(which.type, which.op) && !runner.has_floats)
        UNISONO_RETURN_IF_ERROR(checked_call(runner, InputSet::kOrderSensitive));
    }
  }
  const auto pace = agree_on_pace(runners);
  if (!pace.ok()) return pace.status();
  UNISONO_RETURN_IF_ERROR(run(runners, *pace));
  for (Runner& runner : runners) {
    auto plan = communicator_.plan(runner.call);
    if (plan.ok()) runner.measurement.plan = plan.take();  // now it knows which form ran
  }
  return exchange(runners);
}

}  // namespace unisono
