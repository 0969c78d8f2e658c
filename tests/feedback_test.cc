// SPDX-License-Identifier: Apache-2.0
// Error feedback: what a codec loses comes later, through changes of plan and communicator, and
// exports.
#include "communicator/feedback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "algorithms/registry.h"
#include "codecs/codec.h"
#include "schedule/quantise.h"
#include "tests/support/ranks.h"

namespace unisono {
namespace {

using Vector = std::vector<float>;

constexpr size_t kCount = 3001;
constexpr uint32_t kSeed = 20240614;

Vector input_of(int rank) {
  std::mt19937 random(kSeed + static_cast<uint32_t>(rank));
  std::normal_distribution<float> normal;
  Vector input(kCount);
  for (float& value : input) value = normal(random);
  return input;
}

std::vector<double> exact_sum(int ranks) {
  std::vector<double> sum(kCount, 0.0);
  for (int rank = 0; rank < ranks; ++rank) {
    const Vector input = input_of(rank);
    for (size_t i = 0; i < kCount; ++i) sum[i] += double(input[i]);
  }
  return sum;
}

std::unique_ptr<Feedback> make_feedback(size_t count = kCount) {
  auto feedback = Feedback::create("w", count);
  EXPECT_TRUE(feedback.ok());
  return feedback.take();
}

Choice choice_of(std::string_view algorithm, std::string_view codec) {
  return {.algorithm = std::string(algorithm), .codec = std::string(codec)};
}

// One call with my input, added to `total`.
void step(Communicator& communicator, const Choice& choice, Feedback* feedback,
          std::vector<double>& total, ReduceOp op = ReduceOp::kSum) {
  const Vector input = input_of(communicator.rank());
  Vector output(kCount);
  const Status status = communicator.all_reduce({.input = input.data(),
                                                 .output = output.data(),
                                                 .count = kCount,
                                                 .op = op,
                                                 .choice = choice,
                                                 .feedback = feedback});
  ASSERT_TRUE(status.ok()) << status.message();
  const double factor = op == ReduceOp::kAvg ? communicator.size() : 1;
  for (size_t i = 0; i < kCount; ++i) total[i] += factor * double(output[i]);
}

// Root mean square of total / steps − exact.
double error_of_mean(const std::vector<double>& total, int steps,
                     const std::vector<double>& exact) {
  double squares = 0;
  for (size_t i = 0; i < kCount; ++i) squares += std::pow(total[i] / steps - exact[i], 2);
  return std::sqrt(squares / double(kCount));
}

// Whether every encoding of the algorithm has a residual: not where several ranks must encode
// alike.
bool is_fed_back(const Algorithm& algorithm, int ranks) {
  Shape shape{.size = ranks};
  shape.parameters = *resolve_parameters(algorithm, {});
  for (shape.rank = 0; shape.rank < ranks; ++shape.rank)
    for (const Step& step : build_quantised(algorithm, shape).steps)
      if (step.kind == StepKind::kEncode && step.residual == Residual::kNone) return false;
  return true;
}

class Convergence : public ::testing::TestWithParam<int> {};

TEST_P(Convergence, TheMeanOfManyCallsIsExactWithFeedbackAndNotWithout) {
  constexpr int kSteps = 60;
  const int ranks = GetParam();
  const std::vector<double> exact = exact_sum(ranks);
  testing::run_threads(ranks, [&](Communicator& communicator) {
    for (const Algorithm* algorithm : algorithms()) {
      for (const Codec* codec : codec_table()) {
        const Choice choice = choice_of(algorithm->name, codec->name);
        const auto feedback = make_feedback();
        std::vector<double> with(kCount, 0.0), without(kCount, 0.0);
        for (int i = 0; i < kSteps; ++i)
          step(communicator, choice, feedback.get(), with,
               ranks % 2 == 0 ? ReduceOp::kAvg : ReduceOp::kSum);
        step(communicator, choice, nullptr, without);
        const double error = error_of_mean(with, kSteps, exact);
        const double plain_error = error_of_mean(without, 1, exact);
        SCOPED_TRACE(::testing::Message()
                     << algorithm->name << " codec=" << codec->name << ", " << ranks << " ranks");
        EXPECT_GT(plain_error, 0);
        if (is_fed_back(*algorithm, ranks)) {
          EXPECT_LT(error, 0.2 * plain_error);
        }
        EXPECT_EQ(feedback->query().steps, uint64_t{kSteps});
        EXPECT_GT(feedback->query().norm, 0);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Convergence, ::testing::Values(2, 3, 4));

TEST(Feedback, MostAlgorithmsFeedEveryErrorBack) {
  for (const Algorithm* algorithm : algorithms())
    for (int ranks : {2, 3, 4, 8})
      EXPECT_EQ(is_fed_back(*algorithm, ranks),
                algorithm->name != "recursive_doubling" || ranks == 2)
          << algorithm->name << ", " << ranks << " ranks";
}

TEST(Feedback, NothingIsLostWhenThePlanOrTheCommunicatorChanges) {
  constexpr int kRanks = 3, kSteps = 96;
  auto others = make_thread_bootstraps(kRanks);
  const std::vector<double> exact = exact_sum(kRanks);
  testing::run_threads(kRanks, [&](Communicator& communicator) {
    auto second =
        Communicator::create(std::move(others[size_t(communicator.rank())]), testing::impatient());
    ASSERT_TRUE(second.ok());
    for (const Codec* codec : codec_table()) {
      const auto feedback = make_feedback();
      std::vector<double> total(kCount, 0.0), once(kCount, 0.0);
      step(**second, choice_of("sharded_ps", codec->name), nullptr, once);
      constexpr std::string_view kNames[] = {"ring", "sharded_ps", "naive_ps",
                                             "double_binary_tree"};
      for (int i = 0; i < kSteps; ++i) {
        if (i == kSteps / 3) {
          ASSERT_TRUE(feedback->rebind(**second).ok());
        }
        Communicator& now = i < kSteps / 3 ? communicator : **second;
        step(now, choice_of(kNames[i / 2 % 4], codec->name), feedback.get(), total,
             i % 5 == 0 ? ReduceOp::kAvg : ReduceOp::kSum);
      }
      EXPECT_LT(error_of_mean(total, kSteps, exact), 0.2 * error_of_mean(once, 1, exact))
          << codec->name;
    }
    (void)communicator.all_gather("");
  });
}

TEST(Feedback, AnExportGoesOnWithTheSameBits) {
  testing::run_threads(3, [](Communicator& communicator) {
    const Choice choice = choice_of("sharded_ps", "onebit");
    const auto feedback = make_feedback(), copy = make_feedback();
    std::vector<double> ignored(kCount, 0.0), left(kCount, 0.0), right(kCount, 0.0);
    for (int i = 0; i < 3; ++i) step(communicator, choice, feedback.get(), ignored);
    const auto bytes = feedback->export_state();
    ASSERT_TRUE(bytes.ok());
    const Status imported = copy->import_state(*bytes);
    ASSERT_TRUE(imported.ok()) << imported.message();
    EXPECT_EQ(copy->query().norm, feedback->query().norm);
    EXPECT_EQ(copy->query().steps, 3u);
    for (int i = 0; i < 3; ++i) {
      step(communicator, choice, feedback.get(), left);
      step(communicator, choice, copy.get(), right);
      ASSERT_EQ(left, right);
    }
    EXPECT_EQ(*copy->export_state(), *feedback->export_state());
    EXPECT_NE(*copy->export_state(), *bytes);
  });
}

TEST(Feedback, ADamagedExportIsRefusedAndChangesNothing) {
  const auto feedback = make_feedback(40);
  const std::string good = *feedback->export_state();
  ASSERT_TRUE(feedback->reset().ok());
  const std::string before = *feedback->export_state();
  for (size_t at = 0; at < good.size(); ++at) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    EXPECT_EQ(feedback->import_state(damaged).code(), StatusCode::kInvalidArgument)
        << "byte " << at;
    EXPECT_EQ(feedback->import_state(good.substr(0, at)).code(), StatusCode::kInvalidArgument)
        << "cut to " << at;
  }
  EXPECT_FALSE(feedback->import_state(good + "x").ok());
  const Status size = make_feedback(41)->import_state(good);
  EXPECT_EQ(size.message(), "import into feedback 'w': the export has 40 elements, expected 41");
  EXPECT_EQ((*Feedback::create("v", 40))->import_state(good).message(),
            "import into feedback 'v': the export is of 'w'");
  EXPECT_EQ(*feedback->export_state(), before);
  EXPECT_TRUE(feedback->import_state(good).ok());
  EXPECT_EQ(*feedback->export_state(), good);
}

TEST(Feedback, AWrongOneIsAnErrorThatChangesNothing) {
  auto others = make_thread_bootstraps(2);
  testing::run_threads(2, [&](Communicator& communicator) {
    auto second =
        Communicator::create(std::move(others[size_t(communicator.rank())]), testing::impatient());
    ASSERT_TRUE(second.ok());
    const auto feedback = make_feedback();
    const Choice choice = choice_of("ring", "int8");
    std::vector<double> ignored(kCount, 0.0);
    step(communicator, choice, feedback.get(), ignored);
    const std::string before = *feedback->export_state();

    Vector values(kCount, 1), longer(kCount + 1, 1);
    AllReduceCall call{.input = values.data(),
                       .output = values.data(),
                       .count = kCount,
                       .choice = choice,
                       .feedback = feedback.get()};
    const auto refused = [&](Communicator& by, const AllReduceCall& bad, const char* text) {
      const Status status = by.all_reduce(bad);
      EXPECT_FALSE(status.ok());
      EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
    };
    refused(**second, call, "feedback 'w' belongs to another communicator: rebind it first");
    AllReduceCall wrong = call;
    wrong.op = ReduceOp::kMax;
    refused(communicator, wrong, "expected the op sum or avg, not max");
    wrong = call;
    wrong.input = wrong.output = longer.data();
    wrong.count = kCount + 1;
    refused(communicator, wrong, "feedback 'w' has 3001 elements, the call 3002");
    EXPECT_EQ(*feedback->export_state(), before);
    EXPECT_EQ(values, Vector(kCount, 1));

    const auto request = communicator.start(call);
    ASSERT_TRUE(request.ok());
    refused(communicator, call, "in use by a call that has not ended");
    EXPECT_FALSE(feedback->reset().ok());
    EXPECT_FALSE(feedback->export_state().ok());
    EXPECT_FALSE(feedback->import_state(before).ok());
    EXPECT_TRUE(communicator.wait(*request).ok());
    EXPECT_EQ(feedback->query().steps, 2u);
    EXPECT_TRUE(feedback->reset().ok());
    EXPECT_EQ(feedback->query().norm, 0);
    EXPECT_EQ(feedback->query().resets, 1u);
    EXPECT_FALSE(Feedback::create("w", 0).ok());
    (void)communicator.all_gather("");
  });
}

}  // namespace
}  // namespace unisono
