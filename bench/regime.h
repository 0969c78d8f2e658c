// SPDX-License-Identifier: Apache-2.0
// The way in which `unisono bench` times an all-reduce (tools/measure.h), for programs that must
// not use the library: bench/floor and bench/peers. Needs only the standard library and POSIX.
//
// A timed call is: rewrite my input (unless hot), barrier, call. Up to 4 KiB a sample is a batch of
// calls, each with its rewrite, and their mean. A sample is the slowest rank's time.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace unisono::regime {

struct Options {
  std::vector<uint64_t> bytes = {8};  // each a multiple of 4
  bool fresh = true;
  bool check = true;       // results; a program that does not reduce has none
  int iterations = 0;      // samples of a size; 0: what 0.1 s allow, 5 to 1000
  unsigned limit_s = 120;  // after which a rank is ended by SIGALRM
};

struct Times {
  double min_us = 0, median_us = 0;
  int samples = 0;
  bool right = true;  // on all ranks
};

inline constexpr uint64_t kBatchedBytes = 4096, kRotatedBytes = 128 << 10, kMostSlots = 8;
inline constexpr size_t kPeriod = 4099;  // a prime: no chunk lines up with it
inline constexpr int kTrials = 2, kLeastBatch = 8, kMostBatch = 64;

inline size_t round_to_pages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

// What a rank's input or output needs for all sizes of `options`.
inline size_t region_bytes(const Options& options) {
  const uint64_t largest = *std::ranges::max_element(options.bytes);
  return std::max<size_t>(round_to_pages(largest),
                          kMostSlots * round_to_pages(kRotatedBytes / kMostSlots));
}

// Zeroed pages, not yet touched; `flags` is MAP_PRIVATE or MAP_SHARED. Ends the process on failure.
inline std::byte* map_pages(size_t bytes, int flags) {
  void* data =
      mmap(nullptr, round_to_pages(bytes), PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    std::fprintf(stderr, "cannot get %zu bytes of memory: %s\n", bytes, std::strerror(errno));
    std::exit(1);
  }
  return static_cast<std::byte*>(data);
}

inline double now_us() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

// A whole decimal number of at least `least`; ends the process with one line otherwise.
inline uint64_t number(const char* flag, const std::string& text, uint64_t least) {
  char* end = nullptr;
  const uint64_t value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || text[0] == '-' || *end != '\0' || value < least) {
    std::fprintf(stderr, "%s %s: expected a number from %llu up\n", flag, text.c_str(),
                 static_cast<unsigned long long>(least));
    std::exit(2);
  }
  return value;
}

// Sizes as `unisono bench --bytes` has them: FIRST:LAST:xFACTOR (x2; LAST is always among them) or
// a list, K, M and G being powers of 1024; each a multiple of 4. Ends the process with one line
// otherwise.
inline std::vector<uint64_t> sweep(const std::string& text) {
  std::vector<uint64_t> sizes;
  const auto fail = [&] {
    std::fprintf(
        stderr, "--bytes %s: expected FIRST:LAST:xFACTOR or a list like 8,64K,1M, multiples of 4\n",
        text.c_str());
    std::exit(2);
  };
  const char* at = text.c_str();
  const auto read = [&at, &fail](bool has_unit) {
    char* end = nullptr;
    uint64_t value = *at >= '0' && *at <= '9' ? std::strtoull(at, &end, 10) : 0;
    if (value == 0) fail();
    at = end;
    for (const auto& [unit, shift] : {std::pair('K', 10), {'M', 20}, {'G', 30}})
      if (has_unit && *at == unit) value <<= shift, ++at;
    return value;
  };
  do {
    uint64_t size = read(true), last = size, factor = 2;
    if (*at == ':') ++at, last = read(true);
    if (at[0] == ':' && at[1] == 'x') at += 2, factor = read(false);
    if (last < size || factor < 2 || (*at != ',' && *at != '\0')) fail();
    for (;; size = std::min(size * factor, last)) {
      if (size % 4 != 0) fail();
      sizes.push_back(size);
      if (size == last) break;
    }
  } while (*at++ == ',');
  return sizes;
}

// Takes argv[at] (and its value) if it is one of --bytes SWEEP, --hot, --iterations N, --limit S,
// and moves `at` to the last argument taken. Bad values end the process with one line.
inline bool take_option(Options& options, int argc, char** argv, int& at) {
  const std::string flag = argv[at];
  if (flag == "--hot") {
    options.fresh = false;
    return true;
  }
  if ((flag != "--bytes" && flag != "--iterations" && flag != "--limit") || at + 1 >= argc)
    return false;
  const std::string value = argv[++at];
  if (flag == "--iterations")
    options.iterations = static_cast<int>(number("--iterations", value, 1));
  if (flag == "--limit") options.limit_s = static_cast<unsigned>(number("--limit", value, 1));
  if (flag != "--bytes") return true;
  options.bytes = sweep(value);
  return true;
}

// One rank's part. Contender has: int rank, size; all_reduce(const float*, float*, size_t count),
// a sum; barrier(); max_over_ranks(double* values, size_t count), in place, on all ranks.
// Collective.
template <typename Contender>
class Meter {
 public:
  // `input` and `output`: region_bytes(options) each; they are touched here.
  Meter(Contender& contender, const Options& options, std::byte* input, std::byte* output)
      : contender_(contender), options_(options), input_(input), output_(output) {
    std::memset(input, 0, region_bytes(options));
    std::memset(output, 0, region_bytes(options));
    for (size_t i = 0; i < kPeriod; ++i) pattern_.push_back(value(contender.rank, i));
  }

  Times measure(uint64_t bytes) {
    bytes_ = bytes;
    slots_ = std::bit_floor(std::clamp<uint64_t>(kRotatedBytes / bytes, 1, kMostSlots));
    stride_ = round_to_pages(bytes);
    Times times{};
    int wrong = 0;
    for (int round = 0; options_.check && round < 3; ++round) {
      place();
      std::memset(target_, 0xA5, bytes_);
      rewrite();
      contender_.all_reduce(source_, target_, bytes_ / sizeof(float));
      wrong += !check();
    }
    const auto [warmup, samples, batch] = agree_on_pace();
    if (batch > 0 && warmup > 0) sample(warmup);
    for (int i = 0; batch == 0 && i < warmup; ++i) sample(0);
    std::vector<double> times_us;
    for (int i = 0; i < samples; ++i) times_us.push_back(sample(batch));
    // Inputs that were left alone hold what they held: only rewritten ones have a known result.
    if (options_.check && options_.fresh) wrong += !check();
    times_us.push_back(wrong);
    contender_.max_over_ranks(times_us.data(), times_us.size());
    times.right = times_us.back() == 0;
    times_us.pop_back();
    std::ranges::sort(times_us);
    const size_t n = times_us.size();
    times.min_us = times_us.front();
    times.median_us = (times_us[(n - 1) / 2] + times_us[n / 2]) / 2;
    times.samples = samples;
    return times;
  }

 private:
  struct Pace {
    int warmup, samples, batch;
  };

  // Small whole numbers: exact in any order, other ones on each rank.
  static float value(int rank, size_t index) {
    return static_cast<float>(1 + (index * 7 + static_cast<size_t>(rank) * 13) % 61);
  }

  // Small vectors take turns in several buffers, as the gradients of a training step do.
  void place() {
    const uint64_t at = (calls_++ & (slots_ - 1)) * stride_;
    source_ = reinterpret_cast<float*>(input_ + at);
    target_ = reinterpret_cast<float*>(output_ + at);
  }

  void rewrite() {
    shift_ = (shift_ + 131) % kPeriod;
    const size_t count = bytes_ / sizeof(float);
    for (size_t done = 0, index = shift_; done < count; index = 0) {
      const size_t piece = std::min(count - done, kPeriod - index);
      std::memcpy(source_ + done, &pattern_[index], piece * sizeof(float));
      done += piece;
    }
  }

  bool check() const {
    std::vector<float> expected(kPeriod, 0);
    for (int rank = 0; rank < contender_.size; ++rank)
      for (size_t i = 0; i < kPeriod; ++i) expected[i] += value(rank, i);
    for (size_t i = 0; i < bytes_ / sizeof(float); ++i)
      if (target_[i] != expected[(shift_ + i) % kPeriod]) return false;
    return true;
  }

  double sample(int batch) {
    if (batch == 0) {
      place();
      if (options_.fresh) rewrite();
    }
    contender_.barrier();
    const double begin = now_us();
    for (int i = 0; i < batch; ++i) {
      place();
      if (options_.fresh) rewrite();
      contender_.all_reduce(source_, target_, bytes_ / sizeof(float));
    }
    if (batch == 0) contender_.all_reduce(source_, target_, bytes_ / sizeof(float));
    return (now_us() - begin) / std::max(batch, 1);
  }

  // Rank 0's: a sample lasts about 50 us, all of them 0.1 s, the untimed calls 20 ms.
  Pace agree_on_pace() {
    const bool batched = bytes_ <= kBatchedBytes;
    double best_us = 100e3;
    for (int trial = 0; trial < kTrials; ++trial)
      best_us = std::min(best_us, sample(batched ? kLeastBatch : 0));
    best_us = std::max(best_us, 0.01);
    double pace[3] = {0, 0, 0};
    if (contender_.rank == 0) {
      pace[0] = std::clamp<double>(20e3 / best_us, 0, 50);
      pace[2] = batched ? std::floor(std::clamp<double>(50 / best_us, kLeastBatch, kMostBatch)) : 0;
      const double allowed = 100e3 / (best_us * std::max(pace[2], 1.0));
      pace[1] =
          options_.iterations > 0 ? options_.iterations : std::clamp<double>(allowed, 5, 1000);
    }
    contender_.max_over_ranks(pace, 3);
    return {static_cast<int>(pace[0]), static_cast<int>(pace[1]), static_cast<int>(pace[2])};
  }

  Contender& contender_;
  const Options& options_;
  std::byte *input_, *output_;
  float *source_ = nullptr, *target_ = nullptr;
  std::vector<float> pattern_;
  uint64_t bytes_ = 0, slots_ = 1, stride_ = 0;
  size_t shift_ = 0, calls_ = 0;
};

// One object on one line.
inline void print_json(const char* name, uint64_t bytes, const Times& times) {
  std::printf(
      "{\"name\":\"%s\",\"bytes\":%llu,\"time_us\":{\"min\":%.4f,\"median\":%.4f},"
      "\"samples\":%d,\"right\":%s}\n",
      name, static_cast<unsigned long long>(bytes), times.min_us, times.median_us, times.samples,
      times.right ? "true" : "false");
  std::fflush(stdout);
}

// A peer's whole program: every size, one line each from rank 0. Returns the exit status.
template <typename Contender>
int run(Contender& contender, const Options& options, const char* name) {
  const size_t bytes = region_bytes(options);
  Meter meter(contender, options, map_pages(bytes, MAP_PRIVATE), map_pages(bytes, MAP_PRIVATE));
  bool right = true;
  for (const uint64_t size : options.bytes) {
    const Times times = meter.measure(size);
    right = right && times.right;
    if (contender.rank == 0) print_json(name, size, times);
    if (contender.rank == 0 && !times.right)
      std::fprintf(stderr, "wrong result at %llu bytes\n", static_cast<unsigned long long>(size));
  }
  return right ? 0 : 1;
}

}  // namespace unisono::regime
