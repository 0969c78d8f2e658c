// SPDX-License-Identifier: Apache-2.0
// Codecs and error feedback through the C and C++ interfaces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <unisono/unisono.hpp>
#include <vector>

#include "tests/support/local_ranks.h"

namespace unisono::testing {
namespace {

using ::testing::HasSubstr;

constexpr size_t kCount = 20001;

// Far from what a sign and a mean can say.
std::vector<float> input_of(int rank) {
  std::vector<float> values(kCount);
  for (size_t i = 0; i < kCount; ++i)
    values[i] = std::sin(static_cast<float>(i * 37 % 1000) + static_cast<float>(rank));
  return values;
}

// Largest error of the mean of `steps` sums over 2 ranks.
double error_of_mean(unisono_comm_t comm, int rank, int steps,
                     const unisono_call_options_t& options) {
  std::vector<float> input = input_of(rank), output(kCount);
  std::vector<double> total(kCount);
  for (int i = 0; i < steps; ++i) {
    EXPECT_EQ(unisono_all_reduce(comm, input.data(), output.data(), kCount, UNISONO_FLOAT32,
                                 UNISONO_SUM, &options),
              UNISONO_OK)
        << unisono_last_error();
    for (size_t at = 0; at < kCount; ++at) total[at] += static_cast<double>(output[at]);
  }
  const std::vector<float> first = input_of(0), second = input_of(1);
  double error = 0;
  for (size_t i = 0; i < kCount; ++i)
    error = std::max(error, std::abs(total[i] / steps - static_cast<double>(first[i]) -
                                     static_cast<double>(second[i])));
  return error;
}

TEST(ApiCodec, FeedbackLosesNothingAndGoesThroughACheckpoint) {
  on_ranks(2, [](unisono_comm_t comm, int rank) {
    unisono_call_options_t options = UNISONO_CALL_OPTIONS_INIT;
    options.codec = "onebit";
    const double without = error_of_mean(comm, rank, 3, options);
    unisono_feedback_t feedback = nullptr, restored = nullptr;
    ASSERT_EQ(unisono_feedback_create("layer1", kCount, &feedback), UNISONO_OK);
    ASSERT_EQ(unisono_feedback_create("layer1", kCount, &restored), UNISONO_OK);
    options.feedback = feedback;
    EXPECT_LT(error_of_mean(comm, rank, 100, options), 0.1 * without);

    unisono_feedback_state_t state = UNISONO_FEEDBACK_STATE_INIT;
    ASSERT_EQ(unisono_feedback_query(feedback, &state), UNISONO_OK);
    EXPECT_EQ(state.steps, 100u);
    EXPECT_GT(state.norm, 0);
    size_t size = 0;
    ASSERT_EQ(unisono_feedback_export(feedback, nullptr, 0, &size), UNISONO_OK);
    std::vector<unsigned char> bytes(size);
    EXPECT_EQ(unisono_feedback_export(feedback, bytes.data(), size - 1, &size),
              UNISONO_INVALID_ARGUMENT);
    ASSERT_EQ(unisono_feedback_export(feedback, bytes.data(), size, &size), UNISONO_OK);
    bytes[size / 2] ^= 1;
    EXPECT_EQ(unisono_feedback_import(restored, bytes.data(), size), UNISONO_INVALID_ARGUMENT);
    EXPECT_THAT(unisono_last_error(), HasSubstr("damaged"));
    bytes[size / 2] ^= 1;
    EXPECT_EQ(unisono_feedback_import(restored, bytes.data(), size), UNISONO_OK);

    const double goes_on = error_of_mean(comm, rank, 3, options);
    options.feedback = restored;
    EXPECT_EQ(error_of_mean(comm, rank, 3, options), goes_on);
    EXPECT_EQ(unisono_feedback_reset(restored), UNISONO_OK);
    ASSERT_EQ(unisono_feedback_query(restored, &state), UNISONO_OK);
    EXPECT_EQ(state.norm, 0);
    EXPECT_EQ(unisono_feedback_destroy(feedback), UNISONO_OK);
    EXPECT_EQ(unisono_feedback_destroy(restored), UNISONO_OK);
    EXPECT_EQ(unisono_feedback_destroy(nullptr), UNISONO_OK);
  });
}

TEST(ApiCodec, WrongUseIsToldAndChangesNothing) {
  on_ranks(1, [](unisono_comm_t comm, int) {
    std::vector<float> values(8, 1);
    unisono_feedback_t feedback = nullptr;
    ASSERT_EQ(unisono_feedback_create("w", 9, &feedback), UNISONO_OK);
    unisono_call_options_t options = UNISONO_CALL_OPTIONS_INIT;
    const auto expect_error = [&](unisono_data_type_t type, unisono_op_t op,
                                  unisono_status_t expected, const char* text) {
      EXPECT_EQ(unisono_all_reduce(comm, values.data(), values.data(), 8, type, op, &options),
                expected);
      EXPECT_THAT(unisono_last_error(), HasSubstr(text));
    };
    options.codec = "onebit";
    expect_error(UNISONO_INT32, UNISONO_SUM, UNISONO_UNSUPPORTED, "serves f32, not i32");
    expect_error(UNISONO_FLOAT32, UNISONO_MIN, UNISONO_UNSUPPORTED, "serves sum, avg, not min");
    options.codec = "onebut";
    expect_error(UNISONO_FLOAT32, UNISONO_SUM, UNISONO_INVALID_ARGUMENT, "did you mean onebit?");
    options.codec = "fp16";
    options.choice = "ring codec=int8";
    expect_error(UNISONO_FLOAT32, UNISONO_SUM, UNISONO_UNSUPPORTED, "asks for codec fp16");
    options.choice = nullptr;
    options.feedback = feedback;
    expect_error(UNISONO_FLOAT32, UNISONO_SUM, UNISONO_INVALID_ARGUMENT,
                 "feedback 'w' has 9 elements, the call 8");
    options.feedback = nullptr;
    options.max_error = -1;
    expect_error(UNISONO_FLOAT32, UNISONO_SUM, UNISONO_INVALID_ARGUMENT, "max_error is -1");
    EXPECT_EQ(unisono_feedback_create("w", 0, &feedback), UNISONO_INVALID_ARGUMENT);
    EXPECT_EQ(unisono_feedback_reset(nullptr), UNISONO_INVALID_ARGUMENT);
    EXPECT_EQ(unisono_feedback_rebind(feedback, nullptr), UNISONO_INVALID_ARGUMENT);
    EXPECT_EQ(unisono_feedback_import(feedback, "x", 1), UNISONO_INVALID_ARGUMENT);
    EXPECT_EQ(unisono_feedback_destroy(feedback), UNISONO_OK);
    EXPECT_EQ(values, std::vector<float>(8, 1));
  });
}

// A codec by name, and an algorithm that the runtime picks: one that encodes as often as advised.
TEST(ApiCodec, ANamedCodecRunsWithWhatTheRuntimePicks) {
  const TestOptions rules("UNISONO_RULES=bytes>1K: ring; *: sharded_ps");
  on_ranks(
      4,
      [](unisono_comm_t comm, int) {
        unisono_call_options_t options = UNISONO_CALL_OPTIONS_INIT;
        unisono_plan_t plan = UNISONO_PLAN_INIT;
        for (const auto& [codec, choice] : {std::pair("onebit", "sharded_ps codec=onebit"),
                                            std::pair("fp16", "ring codec=fp16")}) {
          options.codec = codec;
          ASSERT_EQ(
              unisono_all_reduce_plan(comm, kCount, UNISONO_FLOAT32, UNISONO_SUM, &options, &plan),
              UNISONO_OK)
              << unisono_last_error();
          EXPECT_THAT(plan.choice, HasSubstr(choice));
        }
      },
      rules);
}

TEST(ApiCodec, TensorsOfAGroupKeepTheirOwnFeedback) {
  std::vector<Communicator> ranks = Communicator::local(2, {.settings = {"UNISONO_TIMEOUT=20s"}});
  const auto run = [](Communicator& communicator) {
    const int rank = communicator.rank();
    Feedback first("first", 500), second("second", 300);
    std::vector<double> total(500);
    for (int step = 0; step < 50; ++step) {
      std::vector<float> a = input_of(rank), b = input_of(rank + 1), plain(10, 1);
      a.resize(500);
      b.resize(300);
      CallOptions how;
      how.codec = "int8";
      communicator.group([&] {
        how.feedback = &first;
        communicator.all_reduce(a, Op::kSum, how);
        how.feedback = &second;
        communicator.all_reduce(b, Op::kAvg, how);
        communicator.all_reduce(plain);
      });
      EXPECT_EQ(plain, std::vector<float>(10, 2));
      for (size_t i = 0; i < 500; ++i) total[i] += static_cast<double>(a[i]) / 50;
    }
    for (size_t i = 0; i < 500; ++i)
      EXPECT_NEAR(total[i], double(input_of(0)[i]) + double(input_of(1)[i]), 5e-4);
    EXPECT_EQ(second.query().steps, 50u);
    Feedback copy("second", 300);
    copy.import_state(second.export_state());
    EXPECT_EQ(copy.query().norm, second.query().norm);
    EXPECT_THROW(copy.import_state(first.export_state()), Error);
    communicator.rebind(copy);
  };
  std::jthread other([&] { run(ranks[1]); });
  run(ranks[0]);
}

}  // namespace
}  // namespace unisono::testing
