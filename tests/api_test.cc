// SPDX-License-Identifier: Apache-2.0
// The C interface: what it answers to right and to wrong use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unisono/unisono.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/local_ranks.h"

namespace unisono::testing {
namespace {

using ::testing::HasSubstr;

// A world of one, for misuse.
class ApiMisuse : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(unisono_comm_create_local(1, TestOptions(), &comm), UNISONO_OK)
        << unisono_last_error();
  }
  void TearDown() override { EXPECT_EQ(unisono_comm_destroy(comm), UNISONO_OK); }

  unisono_status_t reduce(const unisono_call_options_t* options = nullptr) {
    return unisono_all_reduce(comm, values, values, 4, UNISONO_FLOAT32, UNISONO_SUM, options);
  }
  // The failure of `status`, told to the thread and to the communicator.
  void expect_told(unisono_status_t status, unisono_status_t expected, const char* text) {
    EXPECT_EQ(status, expected) << unisono_last_error();
    EXPECT_THAT(unisono_last_error(), HasSubstr(text));
    EXPECT_STREQ(unisono_comm_last_error(comm), unisono_last_error());
    EXPECT_EQ(reduce(), UNISONO_OK) << "after misuse: " << unisono_last_error();
  }

  unisono_comm_t comm = nullptr;
  float values[4] = {1, 2, 3, 4};
  float other[4] = {};
};

// ---- Calls ----

TEST(Api, EveryTypeAndOpReduces) {
  for (int size : {1, 2, 5}) {
    on_ranks(size, [&](unisono_comm_t comm, int rank) {
      EXPECT_EQ(unisono_comm_rank(comm), rank);
      EXPECT_EQ(unisono_comm_size(comm), size);
      for (unisono_data_type_t type = UNISONO_INT8; type <= UNISONO_FLOAT64; ++type)
        for (unisono_op_t op = UNISONO_SUM; op <= UNISONO_AVG; ++op) {
          // Zero is zero in every type and by every op.
          std::array<uint64_t, 9> values{};
          EXPECT_EQ(unisono_all_reduce(comm, values.data(), values.data(), 9, type, op, nullptr),
                    UNISONO_OK)
              << unisono_last_error();
          EXPECT_EQ(values, (std::array<uint64_t, 9>{}));
        }
      std::vector<int32_t> input(1000), output(1000);
      for (int i = 0; i < 1000; ++i) input[static_cast<size_t>(i)] = i * (rank + 1);
      EXPECT_EQ(unisono_all_reduce(comm, input.data(), output.data(), 1000, UNISONO_INT32,
                                   UNISONO_SUM, nullptr),
                UNISONO_OK);
      for (int i = 0; i < 1000; ++i)
        ASSERT_EQ(output[static_cast<size_t>(i)], i * size * (size + 1) / 2);
    });
  }
}

TEST(Api, StartedCallsOverlapAndEndInAnyOrder) {
  for (const char* progress : {"UNISONO_PROGRESS=caller", "UNISONO_PROGRESS=thread"}) {
    on_ranks(
        3,
        [](unisono_comm_t comm, int rank) {
          constexpr size_t kCalls = 20;
          std::vector<std::vector<int64_t>> values(kCalls);
          std::vector<unisono_request_t> requests(kCalls);
          for (size_t i = 0; i < kCalls; ++i) {
            values[i].assign(1 + i * 1000, rank + static_cast<int>(i));
            ASSERT_EQ(
                unisono_all_reduce_start(comm, values[i].data(), values[i].data(), values[i].size(),
                                         UNISONO_INT64, UNISONO_SUM, nullptr, &requests[i]),
                UNISONO_OK)
                << unisono_last_error();
          }
          for (size_t i = kCalls; i-- > 0;) {
            unisono_status_t status = UNISONO_IN_PROGRESS;
            if (i % 2 == 0) {
              while (status == UNISONO_IN_PROGRESS) status = unisono_test(comm, requests[i]);
            } else {
              status = unisono_wait(comm, requests[i]);
            }
            EXPECT_EQ(status, UNISONO_OK) << unisono_last_error();
            for (const int64_t value : values[i]) ASSERT_EQ(value, 3 + 3 * static_cast<int>(i));
          }
        },
        TestOptions(progress));
  }
}

TEST(Api, AChoiceIsParsedAndForced) {
  on_ranks(2, [](unisono_comm_t comm, int) {
    for (int round = 0; round < 2; ++round)
      for (const char* choice : {"ring depth=4", "one_shot", "sharded_ps(window=2)", ""}) {
        unisono_call_options_t options = UNISONO_CALL_OPTIONS_INIT;
        options.choice = choice;
        unisono_plan_t plan = UNISONO_PLAN_INIT;
        ASSERT_EQ(unisono_all_reduce_plan(comm, 100, UNISONO_FLOAT32, UNISONO_SUM, &options, &plan),
                  UNISONO_OK)
            << unisono_last_error();
        const std::string name(choice, strcspn(choice, " ("));
        EXPECT_THAT(plan.choice, ::testing::StartsWith(name));
        EXPECT_THAT(plan.reason, HasSubstr(name.empty() ? "rule" : "forced by the call"));
        EXPECT_STRNE(plan.form, "");
        EXPECT_STRNE(plan.transport, "");
        EXPECT_GT(plan.wire_bytes, 0u);
        EXPECT_EQ(plan.slices, 1u);
        float value = 1;
        EXPECT_EQ(
            unisono_all_reduce(comm, &value, &value, 1, UNISONO_FLOAT32, UNISONO_SUM, &options),
            UNISONO_OK)
            << unisono_last_error();
        EXPECT_EQ(value, 2);
      }
  });
}

TEST(Api, WhatRanCanBeAskedAfterwards) {
  on_ranks(2, [](unisono_comm_t comm, int) {
    unisono_plan_t plan = UNISONO_PLAN_INIT;
    std::vector<float> values(10000, 1);
    for (const char* ran : {"", "mapped"}) {  // between threads all buffers are mapped
      ASSERT_EQ(unisono_all_reduce_plan(comm, 10000, UNISONO_FLOAT32, UNISONO_SUM, nullptr, &plan), UNISONO_OK);
      EXPECT_STREQ(plan.form, "mapped");
      EXPECT_STREQ(plan.ran, ran);
      ASSERT_EQ(unisono_all_reduce(comm, values.data(), values.data(), 10000, UNISONO_FLOAT32, UNISONO_SUM, nullptr),
                UNISONO_OK);
    }
    ASSERT_EQ(unisono_all_reduce_plan(comm, 9999, UNISONO_FLOAT32, UNISONO_SUM, nullptr, &plan), UNISONO_OK);
    EXPECT_STREQ(plan.ran, "");
    // A program that was built against the first version of the struct.
    plan.size = offsetof(unisono_plan_t, ran);
    std::memset(plan.ran, 'x', sizeof(plan.ran));
    ASSERT_EQ(unisono_all_reduce_plan(comm, 10000, UNISONO_FLOAT32, UNISONO_SUM, nullptr, &plan), UNISONO_OK);
    EXPECT_EQ(plan.ran[0], 'x');
  });
}

TEST(Api, SettingsFromOptionsAreUsed) {
  on_ranks(
      2,
      [](unisono_comm_t comm, int) {
        unisono_plan_t plan = UNISONO_PLAN_INIT;
        ASSERT_EQ(unisono_all_reduce_plan(comm, 1, UNISONO_FLOAT32, UNISONO_SUM, nullptr, &plan),
                  UNISONO_OK);
        EXPECT_STREQ(plan.choice, "pairwise depth=4");
        EXPECT_STREQ(plan.reason, "forced by UNISONO_ALGORITHM");
      },
      TestOptions("UNISONO_ALGORITHM=pairwise"));
}

TEST(Api, ServersContributeNothing) {
  const int servers[] = {1};
  unisono_options_t options = UNISONO_OPTIONS_INIT;
  options.servers = servers;
  options.server_count = 1;
  on_ranks(
      3,
      [](unisono_comm_t comm, int rank) {
        int32_t value = 1 << rank;
        EXPECT_EQ(unisono_all_reduce(comm, &value, &value, 1, UNISONO_INT32, UNISONO_SUM, nullptr),
                  UNISONO_OK)
            << unisono_last_error();
        EXPECT_EQ(value, 5);
      },
      &options);
}

// ---- Misuse ----

TEST(Api, NullCommunicatorsAreErrors) {
  float value = 0;
  unisono_request_t request;
  unisono_plan_t plan = UNISONO_PLAN_INIT;
  const unisono_status_t answers[] = {
      unisono_all_reduce(nullptr, &value, &value, 1, UNISONO_FLOAT32, UNISONO_SUM, nullptr),
      unisono_all_reduce_start(nullptr, &value, &value, 1, UNISONO_FLOAT32, UNISONO_SUM, nullptr,
                               &request),
      unisono_test(nullptr, 1),
      unisono_wait(nullptr, 1),
      unisono_group_begin(nullptr),
      unisono_group_end(nullptr),
      unisono_group_discard(nullptr),
      unisono_all_reduce_plan(nullptr, 1, UNISONO_FLOAT32, UNISONO_SUM, nullptr, &plan),
      unisono_comm_abort(nullptr)};
  for (const unisono_status_t answer : answers) EXPECT_EQ(answer, UNISONO_INVALID_ARGUMENT);
  EXPECT_STREQ(unisono_last_error(), "unisono_comm_abort: comm is NULL");
  EXPECT_EQ(unisono_comm_destroy(nullptr), UNISONO_OK);
  EXPECT_EQ(unisono_comm_rank(nullptr), -1);
  EXPECT_EQ(unisono_comm_size(nullptr), -1);
  EXPECT_STREQ(unisono_comm_last_error(nullptr), "");
}

TEST(Api, CreationRefusesWhatItCannotUse) {
  unisono_comm_t comm = nullptr;
  unisono_unique_id_t id{};
  const auto all_gather = [](void*, const void*, void*, size_t) { return 17; };
  const auto refused = [&](unisono_status_t status, unisono_status_t expected, const char* text) {
    EXPECT_EQ(status, expected) << unisono_last_error();
    EXPECT_THAT(unisono_last_error(), HasSubstr(text));
    EXPECT_EQ(comm, nullptr);
  };
  const unisono_status_t kWrong = UNISONO_INVALID_ARGUMENT;
  refused(unisono_comm_create_from_environment(nullptr, nullptr), kWrong, "comm is NULL");
  refused(unisono_get_unique_id(nullptr, nullptr), kWrong, "id is NULL");
  refused(unisono_comm_create(nullptr, 1, 0, nullptr, &comm), kWrong, "id is NULL");
  refused(unisono_comm_create(&id, 1, 0, nullptr, &comm), kWrong, "128 bytes of a unique id");
  refused(unisono_comm_create(&id, 2, 2, nullptr, &comm), kWrong, "got rank 2 of 2");
  refused(unisono_comm_create_local(1, nullptr, nullptr), kWrong, "comms is NULL");
  refused(unisono_comm_create_local(0, nullptr, &comm), kWrong, "size is 0: expected at least 1");
  refused(unisono_comm_create_local(-3, nullptr, &comm), kWrong, "size is -3");
  refused(unisono_comm_create_from_callback(nullptr, nullptr, 1, 0, nullptr, &comm), kWrong,
          "all_gather is NULL");
  refused(unisono_comm_create_from_callback(all_gather, nullptr, 1, 1, nullptr, &comm), kWrong,
          "got rank 1 of 1");
  refused(unisono_comm_create_from_callback(all_gather, nullptr, 2, 0, nullptr, &comm),
          UNISONO_SYSTEM, "all_gather gave error 17");
  refused(unisono_comm_create_local(1, TestOptions("UNISONO_TIMEOUT"), &comm), kWrong,
          "'UNISONO_TIMEOUT': expected UNISONO_NAME=value");
  refused(unisono_comm_create_local(1, TestOptions("UNISONO_TIMEOUTS=5s"), &comm), kWrong,
          "did you mean UNISONO_TIMEOUT?");
  refused(unisono_comm_create_local(1, TestOptions("UNISONO_TIMEOUT=soon"), &comm), kWrong,
          "expected a duration");
  refused(unisono_comm_create_local(2, TestOptions("UNISONO_ALGORITHM=rng"), &comm), kWrong,
          "did you mean ring?");
  unisono_options_t servers = UNISONO_OPTIONS_INIT;
  servers.server_count = 1;
  refused(unisono_comm_create_local(1, &servers, &comm), kWrong, "servers is NULL");
}

TEST(Api, OptionsGrowBySize) {
  struct Newer {
    unisono_options_t known;
    uint64_t news;
  };
  const auto create = [](const void* options) {
    unisono_comm_t comm = nullptr;
    const unisono_status_t status =
        unisono_comm_create_local(1, static_cast<const unisono_options_t*>(options), &comm);
    EXPECT_EQ(unisono_comm_destroy(comm), UNISONO_OK);
    return status;
  };
  Newer options{};
  EXPECT_EQ(create(&options), UNISONO_OK) << "zero all through: " << unisono_last_error();
  options.known.server_count = 1;
  EXPECT_EQ(create(&options), UNISONO_INVALID_ARGUMENT) << "the size is forgotten";
  EXPECT_THAT(unisono_last_error(), HasSubstr("its size field is 0: expected sizeof"));
  options.known.server_count = 0;

  options.known.size = sizeof(Newer);
  EXPECT_EQ(create(&options), UNISONO_OK) << "of a newer header: " << unisono_last_error();
  options.news = 1;
  EXPECT_EQ(create(&options), UNISONO_UNSUPPORTED);
  EXPECT_THAT(unisono_last_error(), HasSubstr("fields that this library does not know"));

  for (const size_t size : {size_t{1}, sizeof(unisono_options_t) - 1, size_t{1} << 40}) {
    options.known.size = size;
    EXPECT_EQ(create(&options), UNISONO_INVALID_ARGUMENT) << size;
  }
}

TEST_F(ApiMisuse, WrongCallArguments) {
  const unisono_status_t kWrong = UNISONO_INVALID_ARGUMENT;
  const auto call = [&](const void* in, void* out, size_t count, int type, int op) {
    return unisono_all_reduce(comm, in, out, count, type, op, nullptr);
  };
  expect_told(call(nullptr, values, 4, UNISONO_FLOAT32, 0), kWrong, "input is null");
  expect_told(call(values, nullptr, 4, UNISONO_FLOAT32, 0), kWrong, "output is null");
  EXPECT_EQ(call(nullptr, nullptr, 0, UNISONO_FLOAT32, 0), UNISONO_OK);
  expect_told(call(values, values + 1, 3, UNISONO_FLOAT32, 0), kWrong, "overlap by 8 bytes");
  expect_told(call(values, other, SIZE_MAX / 2, UNISONO_FLOAT32, 0), kWrong, "more than memory");
  for (const int type : {-1, 10, 1 << 30})
    expect_told(call(values, other, 4, type, 0), kWrong, "data type is");
  for (const int op : {-1, 5, 1 << 30})
    expect_told(call(values, other, 4, UNISONO_FLOAT32, op), kWrong, "op is");
  unisono_call_options_t options = UNISONO_CALL_OPTIONS_INIT;
  options.choice = "rng";
  expect_told(reduce(&options), kWrong, "did you mean ring?");
  options.choice = "ring depth=65";
  expect_told(reduce(&options), kWrong, "depth=65");
  options.choice = "ring codec=zip";
  expect_told(reduce(&options), kWrong, "unknown codec zip");
  options.size = 3;
  options.choice = nullptr;
  expect_told(reduce(&options), kWrong, "its size field is 3");
  expect_told(unisono_all_reduce_start(comm, values, values, 4, UNISONO_FLOAT32, UNISONO_SUM,
                                       nullptr, nullptr),
              kWrong, "request is NULL");
  expect_told(unisono_all_reduce_plan(comm, 4, UNISONO_FLOAT32, UNISONO_SUM, nullptr, nullptr),
              kWrong, "plan is NULL");
  unisono_plan_t plan{};
  plan.slices = 1;
  plan.size = 8;
  expect_told(unisono_all_reduce_plan(comm, 4, UNISONO_FLOAT32, UNISONO_SUM, nullptr, &plan),
              kWrong, "its size field is 8");
}

TEST_F(ApiMisuse, ARequestEndsOnce) {
  unisono_request_t first, second;
  for (unisono_request_t* request : {&first, &second})
    ASSERT_EQ(unisono_all_reduce_start(comm, values, values, 4, UNISONO_FLOAT32, UNISONO_SUM,
                                       nullptr, request),
              UNISONO_OK);
  EXPECT_NE(first, second);
  EXPECT_EQ(unisono_wait(comm, first), UNISONO_OK);
  expect_told(unisono_wait(comm, first), UNISONO_INVALID_ARGUMENT, "has ended");
  expect_told(unisono_test(comm, first), UNISONO_INVALID_ARGUMENT, "has ended");
  expect_told(unisono_wait(comm, 0), UNISONO_INVALID_ARGUMENT, "request 0 has ended");

  unisono_comm_t stranger;
  ASSERT_EQ(unisono_comm_create_local(1, nullptr, &stranger), UNISONO_OK);
  EXPECT_EQ(unisono_wait(stranger, second), UNISONO_INVALID_ARGUMENT);
  EXPECT_EQ(unisono_comm_destroy(stranger), UNISONO_OK);
  EXPECT_EQ(unisono_wait(comm, second), UNISONO_OK);
}

TEST(Api, AfterAbortEverythingIsAborted) {
  on_ranks(2, [](unisono_comm_t comm, int rank) {
    // Rank 1 never comes, so rank 0's call is pending when it is aborted.
    if (rank == 1) return;
    int32_t value = 1;
    unisono_request_t request;
    ASSERT_EQ(unisono_all_reduce_start(comm, &value, &value, 1, UNISONO_INT32, UNISONO_SUM, nullptr,
                                       &request),
              UNISONO_OK);
    EXPECT_EQ(unisono_test(comm, request), UNISONO_IN_PROGRESS);
    EXPECT_EQ(unisono_comm_abort(comm), UNISONO_OK);
    EXPECT_EQ(unisono_wait(comm, request), UNISONO_ABORTED);
    EXPECT_THAT(unisono_comm_last_error(comm), HasSubstr("aborted"));
    EXPECT_EQ(unisono_all_reduce(comm, &value, &value, 1, UNISONO_INT32, UNISONO_SUM, nullptr),
              UNISONO_ABORTED);
    EXPECT_EQ(unisono_group_begin(comm), UNISONO_OK);
    EXPECT_EQ(unisono_all_reduce(comm, &value, &value, 1, UNISONO_INT32, UNISONO_SUM, nullptr),
              UNISONO_OK);
    EXPECT_EQ(unisono_group_end(comm), UNISONO_ABORTED);
  });
}

TEST(Api, LastErrorsBelongToTheirThreadAndCommunicator) {
  on_ranks(2, [](unisono_comm_t comm, int rank) {
    EXPECT_STREQ(unisono_last_error(), "");
    EXPECT_STREQ(unisono_comm_last_error(comm), "");
    if (rank == 0) return;
    EXPECT_EQ(unisono_wait(comm, 7), UNISONO_INVALID_ARGUMENT);
    EXPECT_THAT(unisono_comm_last_error(comm), HasSubstr("request 7"));
  });
}

TEST(Api, StatusesAndVersionHaveTexts) {
  EXPECT_STREQ(unisono_status_string(UNISONO_OK), "ok");
  EXPECT_STREQ(unisono_status_string(UNISONO_TIMEOUT), "timeout");
  for (unisono_status_t status = UNISONO_OK; status <= UNISONO_INTERNAL; ++status)
    EXPECT_STRNE(unisono_status_string(status), "unknown status") << status;
  for (const unisono_status_t status : {-1, UNISONO_INTERNAL + 1})
    EXPECT_STREQ(unisono_status_string(status), "unknown status");
  const std::string version = std::to_string(UNISONO_VERSION_MAJOR) + "." +
                              std::to_string(UNISONO_VERSION_MINOR) + "." +
                              std::to_string(UNISONO_VERSION_PATCH);
  EXPECT_EQ(unisono_version(), version);
}

}  // namespace
}  // namespace unisono::testing
