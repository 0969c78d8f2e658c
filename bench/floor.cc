// SPDX-License-Identifier: Apache-2.0
// The machine's limits for an all-reduce between two processes, by the simplest programs, timed as
// `unisono bench` times (bench/README.md says what each row means).
//
//   floor [--bytes SWEEP] [--hot] [--iterations N] [--pin] [--json] [--limit S]
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>

#include "base/text.h"
#include "bench/floor_exchange.h"
#include "bench/regime.h"
#include "topology/host.h"

namespace unisono {
namespace {

using regime::map_pages;

constexpr size_t kForms = 12;  // at most: each has its lines

struct FloorOptions : regime::Options {
  bool pin = false, json = false;
};

// All that the two ranks share; made before they start.
struct Shared {
  Lines* lines;       // [form][rank]
  Line* barriers;     // [rank]
  double* values[2];  // [rank], of max_over_ranks
  std::byte* staging[2];
  size_t parity_bytes;
  std::byte *input[2], *output[2];  // of the mapped forms
};

size_t most_samples(const FloorOptions& options) {
  return static_cast<size_t>(std::max(options.iterations, 1000)) + 1;
}

Shared make_shared(const FloorOptions& options) {
  Shared shared;
  shared.lines = new (map_pages(sizeof(Lines) * 2 * kForms, MAP_SHARED)) Lines[2 * kForms];
  shared.barriers = new (map_pages(sizeof(Line) * 2, MAP_SHARED)) Line[2];
  const size_t region = regime::region_bytes(options);
  shared.parity_bytes = std::max(region, kRing * kPiece);
  // One mapping: the way from a buffer to the peer's is the same for inputs and outputs.
  std::byte* mapped = map_pages(4 * region, MAP_SHARED);
  for (int rank = 0; rank < 2; ++rank) {
    const auto at = static_cast<size_t>(rank);
    shared.values[rank] =
        reinterpret_cast<double*>(map_pages(most_samples(options) * sizeof(double), MAP_SHARED));
    shared.staging[rank] = map_pages(2 * shared.parity_bytes, MAP_SHARED);
    shared.input[rank] = mapped + at * region;
    shared.output[rank] = mapped + (2 + at) * region;
  }
  return shared;
}

// A form at work, as regime::Meter wants it.
template <typename Form>
struct Contender {
  int rank, size;
  Form form;
  const Shared& shared;

  void all_reduce(const float* input, float* output, size_t count) { form(input, output, count); }
  void barrier() { meet(shared.barriers[rank], shared.barriers[1 - rank]); }
  void max_over_ranks(double* values, size_t count) {
    std::copy(values, values + count, shared.values[rank]);
    barrier();
    for (size_t i = 0; i < count; ++i) values[i] = std::max(values[i], shared.values[1 - rank][i]);
    barrier();
  }
};

class Rank {
 public:
  Rank(int rank, const FloorOptions& options, const Shared& shared)
      : rank_(rank), options_(options), shared_(shared) {}

  int run() {
    const size_t region = regime::region_bytes(options_);
    std::byte* input = map_pages(region, MAP_PRIVATE);
    std::byte* output = map_pages(region, MAP_PRIVATE);
    std::memset(shared_.staging[rank_], 0, 2 * shared_.parity_bytes);
    if (rank_ == 0 && !options_.json)
      fmt::print("{:<22}{:>8}{:>12}{:>12}\n", "form", "size", "median µs", "GB/s");

    FloorOptions alone = options_;
    alone.bytes = {8};
    measure(LineExchange(pair()), alone, input, output);
    alone.fresh = alone.check = false;
    measure(RoundTrip(pair()), alone, input, output);

    measure(PrivateOneShot<Stores::kNormal>(pair()), options_, input, output);
    measure(PrivateOneShot<Stores::kNonTemporal>(pair()), options_, input, output);
    measure(PrivateTwoShot<Stores::kNormal>(pair()), options_, input, output);
    measure(PrivateTwoShot<Stores::kNonTemporal>(pair()), options_, input, output);
    measure(PrivateRead(pair()), options_, input, output);
    std::byte *mapped_in = shared_.input[rank_], *mapped_out = shared_.output[rank_];
    const auto to_peer = static_cast<std::ptrdiff_t>(region / sizeof(float)) * (1 - 2 * rank_);
    measure(Mapped<Stores::kNormal>(pair(), to_peer), options_, mapped_in, mapped_out);
    measure(Mapped<Stores::kNonTemporal>(pair(), to_peer), options_, mapped_in, mapped_out);

    FloorOptions unchecked = options_;
    unchecked.check = false;
    const auto* other = reinterpret_cast<const float*>(map_pages(region, MAP_PRIVATE));
    std::memset(const_cast<float*>(other), 0, region);  // else it would be one page of zeros
    measure(Stream<false, Stores::kNormal>(other), unchecked, input, output);
    measure(Stream<false, Stores::kNonTemporal>(other), unchecked, input, output);
    measure(Stream<true, Stores::kNormal>(other), unchecked, input, output);
    measure(Stream<true, Stores::kNonTemporal>(other), unchecked, input, output);
    return right_ ? 0 : 1;
  }

 private:
  Pair pair() {
    Lines* lines = shared_.lines + 2 * forms_++;
    return {
        rank_, {lines, lines + 1}, {shared_.staging[0], shared_.staging[1]}, shared_.parity_bytes};
  }

  template <typename Form>
  void measure(Form form, const FloorOptions& options, std::byte* input, std::byte* output) {
    Contender<Form> contender{rank_, 2, form, shared_};
    regime::Meter meter(contender, options, input, output);
    contender.barrier();  // the peer's buffers are ready too
    for (const uint64_t bytes : options.bytes) {
      const regime::Times times = meter.measure(bytes);
      if constexpr (requires { contender.form.allowed(); })
        if (!contender.form.allowed()) return skip(Form::kName);
      right_ = right_ && times.right;
      if (rank_ == 0) print(Form::kName, bytes, times);
    }
  }

  void skip(const char* name) const {
    if (rank_ == 0) fmt::print(stderr, "floor: SKIPPED {}: process_vm_readv is not allowed here\n", name);
  }

  void print(const char* name, uint64_t bytes, const regime::Times& times) const {
    if (options_.json) {
      regime::print_json(name, bytes, times);
      return;
    }
    fmt::print("{:<22}{:>8}{:>12.3f}{:>12.2f}{}\n", name, format_bytes(bytes), times.median_us,
               static_cast<double>(bytes) / times.median_us / 1e3, times.right ? "" : "  WRONG");
    std::fflush(stdout);
  }

  const int rank_;
  const FloorOptions& options_;
  const Shared& shared_;
  size_t forms_ = 0;
  bool right_ = true;
};

// To the rank-th CPU that this process may use, in turn.
void pin(int rank) {
  const std::vector<int> cpus = allowed_cpus();
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpus[static_cast<size_t>(rank) % cpus.size()]), &set);
  sched_setaffinity(0, sizeof set, &set);
}

FloorOptions parse(int argc, char** argv) {
  FloorOptions options;
  options.bytes = {8, 4096, 64 << 10, 1 << 20, 16 << 20};
  for (int at = 1; at < argc; ++at) {
    const std::string flag = argv[at];
    if (flag == "--pin") {
      options.pin = true;
    } else if (flag == "--json") {
      options.json = true;
    } else if (!take_option(options, argc, argv, at)) {
      fmt::print(stderr,
                 "floor: {}: expected --bytes SWEEP, --hot, --iterations N, --pin, --json or "
                 "--limit S\n",
                 flag);
      std::exit(2);
    }
  }
  return options;
}

// Starts both ranks; if one fails, the other is ended. Returns the exit status.
int run(const FloorOptions& options) {
  const Shared shared = make_shared(options);
  pid_t ranks[2];
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank] = fork();
    if (ranks[rank] != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(options.limit_s);
    if (options.pin) pin(rank);
    const int status = Rank(rank, options, shared).run();
    std::fflush(stdout);
    _exit(status);
  }
  int worst = 0;
  for (int ended = 0; ended < 2; ++ended) {
    int status = 0;
    const pid_t pid = wait(&status);
    if (status == 0) continue;
    worst = 1;
    // Still ours to end: it has not been waited for.
    if (ended == 0) kill(pid == ranks[0] ? ranks[1] : ranks[0], SIGKILL);
  }
  if (worst != 0)
    fmt::print(stderr, "floor: a rank failed, was wrong, or passed {} s\n", options.limit_s);
  return worst;
}

}  // namespace
}  // namespace unisono

int main(int argc, char** argv) {
  return unisono::run(unisono::parse(argc, argv));
}
