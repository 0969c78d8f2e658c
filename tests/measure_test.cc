// SPDX-License-Identifier: Apache-2.0
// The measuring and checking behind bench and compare: a communicator that gives wrong results is
// told on.
#include "tools/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codecs/codec.h"
#include "tests/support/ranks.h"
#include "tools/session.h"
#include "tools/statistics.h"

namespace unisono {
namespace {

using ::testing::HasSubstr;

// Passes everything on, and flips the lowest bit of one element of every result but the barrier's.
class Corrupting final : public Communicator {
 public:
  Corrupting(Communicator& real, bool corrupt) : real_(real), corrupt_(corrupt) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  Status all_reduce(const AllReduceCall& call) override {
    Status status = real_.all_reduce(call);
    if (corrupt_ && call.count > 1)
      static_cast<std::byte*>(call.output)[call.count / 2 * size_of(call.type)] ^= std::byte{1};
    return status;
  }
  Result<Request*> start(const AllReduceCall& call) override { return real_.start(call); }
  Status test(Request* request) override { return real_.test(request); }
  Status wait(Request* request) override { return real_.wait(request); }
  Result<CallPlan> plan(const AllReduceCall& call) const override { return real_.plan(call); }
  Result<std::vector<std::string>> all_gather(std::string_view mine) override {
    return real_.all_gather(mine);
  }
  Result<void*> allocate(size_t bytes) override { return real_.allocate(bytes); }
  Status free(void* memory) override { return real_.free(memory); }
  void abort() override { real_.abort(); }

 private:
  Communicator& real_;
  const bool corrupt_;
};

MeasureOptions short_sweep() {
  MeasureOptions options;
  options.bytes = {40, 4096};
  options.types = {DataType::kFloat32, DataType::kInt8};
  options.ops = {ReduceOp::kSum, ReduceOp::kMax};
  options.candidates = *parse_algorithms("ring,recursive_doubling");
  options.pattern.iterations = 3;
  options.pattern.warmup = 1;
  options.json = "/dev/null";
  options.csv = "-";
  return options;
}

// Rows go to standard output as CSV, where gtest lets them be.
Status sweep_with(Communicator& real, bool corrupt, const MeasureOptions& options) {
  Corrupting communicator(real, corrupt);
  return run_sweep_on(communicator, options, "test",
                      {.candidates = able_candidates,
                       .header = [](const Session&) { return std::string(); },
                       .show = [](const Session&, const MeasureCase&, std::span<const Candidate>,
                                  std::span<const Measurement>) { return std::string(); },
                       .footer = {}});
}

TEST(Measure, RightResultsPassOnEveryRank) {
  testing::run_threads(3, [](Communicator& communicator) {
    for (const bool in_place : {false, true}) {
      MeasureOptions options = short_sweep();
      options.pattern.in_place = in_place;
      const Status status = sweep_with(communicator, false, options);
      EXPECT_TRUE(status.ok()) << status.message();
    }
  });
}

TEST(Measure, OneWrongBitOfOneRankFailsTheSweepOnAllRanks) {
  testing::run_threads(3, [](Communicator& communicator) {
    const Status status = sweep_with(communicator, communicator.rank() == 1, short_sweep());
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("16 of 16 results are wrong; the first: ring 40 f32 sum: rank 1: element 5"));
  });
}

TEST(Measure, OneWrongBitIsFoundThroughEveryCodec) {
  testing::run_threads(2, [](Communicator& communicator) {
    for (const Codec* codec : codec_table()) {
      MeasureOptions options = short_sweep();
      options.types = {DataType::kFloat32};
      options.ops = {ReduceOp::kSum, ReduceOp::kAvg};
      for (Candidate& candidate : options.candidates) candidate.choice->codec = codec->name;
      EXPECT_TRUE(sweep_with(communicator, false, options).ok()) << codec->name;
      for (const int corrupted : {0, 1}) {
        const Status status = sweep_with(communicator, communicator.rank() == corrupted, options);
        EXPECT_THAT(std::string(status.message()), HasSubstr("8 of 8 results are wrong"))
            << codec->name;
      }
    }
  });
}

// Ranks that agree on a wrong bit, through a codec; and what is said of a rank that alone is wrong.
TEST(Measure, CodecsAreCheckedAgainstTheirDefinitionOnAllRanks) {
  testing::run_threads(3, [](Communicator& communicator) {
    MeasureOptions options = short_sweep();
    options.types = {DataType::kFloat32};
    options.ops = {ReduceOp::kSum};
    options.candidates = *parse_algorithms("ring codec=onebit");
    EXPECT_THAT(std::string(sweep_with(communicator, true, options).message()),
                HasSubstr("rank 0: element 5 is"));
    EXPECT_THAT(std::string(sweep_with(communicator, communicator.rank() == 2, options).message()),
                HasSubstr("rank 2: other bits than rank 0"));
  });
}

TEST(Measure, ResultsThatAreNotCheckedAreNotCalledWrong) {
  testing::run_threads(2, [](Communicator& communicator) {
    MeasureOptions options = short_sweep();
    options.pattern.check = false;
    EXPECT_TRUE(sweep_with(communicator, true, options).ok());
  });
}

// Equal on all ranks and still wrong: found by the known results alone.
TEST(Measure, TheSameWrongBitOnAllRanksIsFound) {
  testing::run_threads(2, [](Communicator& communicator) {
    EXPECT_EQ(sweep_with(communicator, true, short_sweep()).code(), StatusCode::kInternal);
  });
}

TEST(Measure, MemoryThatIsNotThereIsToldBeforeTheStart) {
  testing::run_threads(2, [](Communicator& communicator) {
    MeasureOptions options = short_sweep();
    options.bytes.push_back(uint64_t{1} << 50);
    const Status status = sweep_with(communicator, false, options);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("--bytes 1024Ti: "));
  });
}

TEST(Measure, AllRanksGetTheFirstFailure) {
  testing::run_threads(3, [](Communicator& communicator) {
    EXPECT_TRUE(agree(communicator, Status()).ok());
    const int rank = communicator.rank();
    const Status status = agree(
        communicator, rank == 0 ? Status() : invalid_argument("rank " + std::to_string(rank)));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "rank 1");
  });
}

TEST(Statistics, OfFewAndManySamples) {
  const Statistics few = statistics_of({4, 1, 3, 2});
  EXPECT_EQ(few.min, 1);
  EXPECT_EQ(few.median, 2.5);
  EXPECT_EQ(few.p99, 4);
  std::vector<double> samples;
  for (int i = 200; i > 0; --i) samples.push_back(i);
  EXPECT_EQ(statistics_of(samples).p99, 198);
  EXPECT_EQ(statistics_of(samples).median, 100.5);
}

TEST(Statistics, BusbwIsWhatEachRankMustSend) {
  EXPECT_DOUBLE_EQ(algbw_GBps(4000, 2), 2);
  EXPECT_DOUBLE_EQ(busbw_GBps(4000, 2, 4), 3);
  EXPECT_EQ(busbw_GBps(4000, 2, 1), 0);
}

}  // namespace
}  // namespace unisono
