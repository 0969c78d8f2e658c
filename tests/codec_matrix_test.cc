// SPDX-License-Identifier: Apache-2.0
// Every codec × algorithm × rank count: the bits that the schedule and the codec define, on every
// rank, and an error inside the bound that they give, which is no loose one.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "algorithms/registry.h"
#include "codecs/codec.h"
#include "tests/support/ranks.h"
#include "tools/check.h"
#include "tools/codec_reference.h"

namespace unisono {
namespace {

constexpr uint32_t kSeed = 20240613;

using Vector = std::vector<float>;

Shape shape_of(const Algorithm& algorithm, int ranks) {
  Shape shape{.size = ranks};
  shape.parameters = *resolve_parameters(algorithm, {});
  return shape;
}

// Of one sign in an element on all ranks and of nearly one size, so that zeros are far off.
std::vector<Vector> make_inputs(int ranks, size_t count) {
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<float> size(0.9f, 1.1f);
  std::vector<Vector> inputs(static_cast<size_t>(ranks), Vector(count));
  for (Vector& input : inputs)
    for (size_t i = 0; i < count; ++i) input[i] = size(random) * (i % 3 == 0 ? -1.0f : 1.0f);
  return inputs;
}

struct Case {
  const Codec& codec;
  ReduceOp op;
  size_t count;
  bool in_place;
};

// Returns the worst error as part of its bound on rank 0, else 0.
double run_case(Communicator& communicator, const Algorithm& algorithm, const Case& c) {
  SCOPED_TRACE(::testing::Message()
               << algorithm.name << " codec=" << c.codec.name << " rank " << communicator.rank()
               << " of " << communicator.size() << " " << name_of(c.op) << " count " << c.count
               << " in_place " << c.in_place);
  const auto inputs = make_inputs(communicator.size(), c.count);
  const Vector& mine = inputs[static_cast<size_t>(communicator.rank())];
  Vector input = mine, output = c.in_place ? mine : Vector(c.count);
  const AllReduceCall call{.input = c.in_place ? output.data() : input.data(),
                           .output = output.data(),
                           .count = c.count,
                           .op = c.op,
                           .choice = Choice{.algorithm = std::string(algorithm.name),
                                            .codec = std::string(c.codec.name)}};
  const auto plan = communicator.plan(call);
  EXPECT_TRUE(plan.ok());
  if (!plan.ok()) return 0;
  EXPECT_EQ(plan->form, "schedule");
  const Status status = communicator.all_reduce(call);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(c.in_place || input == mine) << "the input changed";
  const uint64_t hash = hash_of(output.data(), c.count * sizeof(float));
  const auto hashes = communicator.all_gather({reinterpret_cast<const char*>(&hash), sizeof hash});
  EXPECT_TRUE(hashes.ok());
  if (!hashes.ok()) return 0;
  for (const std::string& theirs : *hashes) EXPECT_EQ(theirs, hashes->front()) << "ranks differ";
  if (communicator.rank() != 0) return 0;
  const CodecReference reference(algorithm, shape_of(algorithm, communicator.size()), &c.codec,
                                 c.op);
  const RankInput input_of = [&](int rank, size_t first, size_t count, float* values) {
    std::copy_n(&inputs[static_cast<size_t>(rank)][first], count, values);
  };
  const Verdict verdict = reference.check(input_of, output.data(), c.count, plan->slices);
  EXPECT_EQ(verdict.wrong, 0u) << "element " << verdict.first_wrong << " is " << verdict.got
                               << ", expected " << verdict.expected;
  EXPECT_FALSE(verdict.zeros_pass);
  return verdict.share_of_bound;
}

class CodecMatrix : public ::testing::TestWithParam<int> {};

TEST_P(CodecMatrix, GivesTheDefinedBitsWithinATightBound) {
  const int ranks = GetParam();
  testing::RankOptions options;
  ASSERT_TRUE(options.settings.set("UNISONO_SLICE_BYTES", "4K", "options").ok());
  for (const Algorithm* algorithm : algorithms()) {
    testing::run_threads(
        ranks,
        [&](Communicator& communicator) {
          for (const Codec* codec : codec_table()) {
            double worst = 0;
            size_t turn = 0;
            for (const size_t count :
                 {size_t{0}, size_t{1}, size_t(ranks), size_t{257}, size_t{20011}})
              for (const ReduceOp op : codec->ops)
                worst = std::max(worst, run_case(communicator, *algorithm,
                                                 {*codec, op, count, ++turn % 2 == 0}));
            if (communicator.rank() == 0 && ranks > 1) {
              EXPECT_GT(worst, 0.25)
                  << algorithm->name << " codec=" << codec->name << ": the bound is loose";
            }
          }
        },
        options);
  }
}

TEST_P(CodecMatrix, SendsAsManyBytesAsTheCodecSays) {
  testing::run_threads(GetParam(), [&](Communicator& communicator) {
    for (const Algorithm* algorithm : algorithms()) {
      AllReduceCall call{.count = 1 << 20,
                         .choice = Choice{.algorithm = std::string(algorithm->name)}};
      const double plain = double(communicator.plan(call)->wire_bytes);
      for (const Codec* codec : codec_table()) {
        call.choice->codec = codec->name;
        const double part = double(codec->wire_size(1 << 20)) / (4 << 20);
        EXPECT_NEAR(double(communicator.plan(call)->wire_bytes), part * plain, 0.01 * part * plain)
            << algorithm->name << " codec=" << codec->name;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CodecMatrix, ::testing::Values(1, 2, 3, 5, 8));

TEST(Codecs, WhatTheyDoNotServeIsAnErrorThatChangesNothing) {
  testing::run_threads(2, [](Communicator& communicator) {
    std::vector<int32_t> values(100, 1);
    const auto run = [&](DataType type, ReduceOp op, const char* codec) {
      return communicator.all_reduce({.input = values.data(),
                                      .output = values.data(),
                                      .count = values.size(),
                                      .type = type,
                                      .op = op,
                                      .choice = Choice{.algorithm = "ring", .codec = codec}});
    };
    const Status type = run(DataType::kInt32, ReduceOp::kSum, "onebit");
    EXPECT_EQ(type.code(), StatusCode::kUnsupported);
    EXPECT_NE(type.message().find("codec onebit serves f32, not i32"), std::string::npos);
    const Status op = run(DataType::kFloat32, ReduceOp::kMin, "onebit");
    EXPECT_EQ(op.code(), StatusCode::kUnsupported);
    EXPECT_NE(op.message().find("codec onebit serves sum, avg, not min"), std::string::npos);
    const Status name = run(DataType::kFloat32, ReduceOp::kSum, "onebut");
    EXPECT_EQ(name.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(name.message().find("did you mean onebit?"), std::string::npos);
    EXPECT_EQ(values, std::vector<int32_t>(100, 1));
    EXPECT_TRUE(run(DataType::kInt32, ReduceOp::kSum, "none").ok());
    EXPECT_EQ(values, std::vector<int32_t>(100, 2));
  });
}

TEST(Codecs, AnUnknownOneInTheSettingsIsFoundAtTheStart) {
  for (const char* setting : {"UNISONO_ALGORITHM", "UNISONO_RULES"}) {
    Settings settings = testing::impatient();
    const std::string prefix = std::string_view(setting) == "UNISONO_RULES" ? "*: " : "";
    ASSERT_TRUE(settings.set(setting, prefix + "ring codec=onebut", "options").ok());
    const auto communicator =
        Communicator::create(std::move(make_thread_bootstraps(1)[0]), settings);
    ASSERT_FALSE(communicator.ok());
    const std::string text(communicator.status().message());
    EXPECT_NE(text.find(setting), std::string::npos) << text;
    EXPECT_NE(text.find("unknown codec onebut: did you mean onebit?"), std::string::npos) << text;
  }
}

TEST(Codecs, TheTablePicksOneOnlyAsFarAsTheCallAllows) {
  testing::RankOptions options;
  ASSERT_TRUE(options.settings
                  .set("UNISONO_RULES",
                       "bytes>=4K: ring codec=onebit; bytes>=4K: sharded_ps codec=onebit;"
                       "bytes>=4K: ring codec=fp16; *: one_shot codec=bf16; *: sharded_ps",
                       "options")
                  .ok());
  testing::run_threads(
      4,
      [](Communicator& communicator) {
        const auto picked = [&](size_t count, double max_error,
                                DataType type = DataType::kFloat32) {
          const auto plan =
              communicator.plan({.count = count, .type = type, .max_error = max_error});
          EXPECT_TRUE(plan.ok()) << plan.status().message();
          return plan.ok() ? plan->choice.algorithm + " " + plan->choice.codec : "";
        };
        EXPECT_EQ(picked(4000, 0), "sharded_ps none");
        EXPECT_EQ(picked(4000, 1e-6), "sharded_ps none");
        EXPECT_EQ(picked(4000, 0.01), "ring fp16");
        EXPECT_EQ(picked(100, 0.01), "one_shot bf16");
        // A ring would encode a contribution four times: too often for onebit.
        EXPECT_EQ(picked(4000, 10), "sharded_ps onebit");
        EXPECT_EQ(picked(4000, 10, DataType::kFloat64), "sharded_ps none");
      },
      options);
}

}  // namespace
}  // namespace unisono
