// SPDX-License-Identifier: Apache-2.0
// unisono_alloc and unisono_free as their users see them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unisono/unisono.h>
#include <unistd.h>

#include <atomic>
#include <span>
#include <unisono/unisono.hpp>

#include "tests/support/local_ranks.h"

namespace unisono {
namespace {

using ::testing::HasSubstr;

TEST(ApiMemory, ReducesInItAndFreesIt) {
  testing::on_ranks(3, [](unisono_comm_t comm, int rank) {
    void* memory = nullptr;
    ASSERT_EQ(unisono_alloc(comm, 40000, &memory), UNISONO_OK) << unisono_last_error();
    auto* const values = static_cast<int32_t*>(memory);
    EXPECT_EQ(values[9999], 0);
    std::fill_n(values, 10000, rank);
    ASSERT_EQ(unisono_all_reduce(comm, values, values, 10000, UNISONO_INT32, UNISONO_SUM, nullptr),
              UNISONO_OK);
    EXPECT_EQ(values[0], 3);
    EXPECT_EQ(values[9999], 3);
    EXPECT_EQ(unisono_free(comm, memory), UNISONO_OK);
  });
}

TEST(ApiMemory, MistakesAreToldAndChangeNothing) {
  testing::on_ranks(2, [](unisono_comm_t comm, int) {
    void* memory = nullptr;
    EXPECT_EQ(unisono_alloc(nullptr, 64, &memory), UNISONO_INVALID_ARGUMENT);
    EXPECT_THAT(unisono_last_error(), HasSubstr("unisono_alloc: comm is NULL"));
    EXPECT_EQ(unisono_alloc(comm, 64, nullptr), UNISONO_INVALID_ARGUMENT);
    EXPECT_THAT(unisono_last_error(), HasSubstr("memory is NULL"));
    EXPECT_EQ(unisono_alloc(comm, 0, &memory), UNISONO_INVALID_ARGUMENT);
    EXPECT_THAT(unisono_last_error(), HasSubstr("expected at least 1"));
    EXPECT_EQ(unisono_alloc(comm, SIZE_MAX, &memory), UNISONO_OUT_OF_RESOURCES);
    EXPECT_THAT(unisono_last_error(), HasSubstr("rank 0: memory of 18446744073709551615 bytes"));
    EXPECT_EQ(memory, nullptr);
    ASSERT_EQ(unisono_alloc(comm, 64, &memory), UNISONO_OK);
    EXPECT_EQ(unisono_free(comm, static_cast<char*>(memory) + 1), UNISONO_INVALID_ARGUMENT);
    EXPECT_THAT(unisono_last_error(),
                HasSubstr("unisono_free: memory lies 1 bytes into an allocation"));
    ASSERT_EQ(unisono_group_begin(comm), UNISONO_OK);
    EXPECT_EQ(unisono_free(comm, memory), UNISONO_INVALID_ARGUMENT);
    EXPECT_EQ(unisono_alloc(comm, 64, &memory), UNISONO_INVALID_ARGUMENT);
    EXPECT_THAT(unisono_last_error(), HasSubstr("not inside a group"));
    ASSERT_EQ(unisono_group_end(comm), UNISONO_OK);
    EXPECT_EQ(unisono_free(comm, memory), UNISONO_OK);
    EXPECT_EQ(unisono_free(comm, memory), UNISONO_INVALID_ARGUMENT);
    EXPECT_THAT(unisono_last_error(), HasSubstr("has been freed"));
    EXPECT_EQ(unisono_free(comm, nullptr), UNISONO_OK);
  });
}

TEST(ApiMemory, AChildLeavesTheParentsAlone) {
  unisono_comm_t comm;
  ASSERT_EQ(unisono_comm_create_local(1, nullptr, &comm), UNISONO_OK);
  void* memory;
  ASSERT_EQ(unisono_alloc(comm, 64, &memory), UNISONO_OK);
  const pid_t child = fork();
  if (child == 0) {
    const bool told = unisono_free(comm, memory) == UNISONO_INVALID_ARGUMENT &&
                      std::string(unisono_last_error()).find("before fork()") != std::string::npos;
    unisono_comm_destroy(comm);
    _exit(told ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  static_cast<char*>(memory)[63] = 1;
  EXPECT_EQ(unisono_free(comm, memory), UNISONO_OK);
  EXPECT_EQ(unisono_comm_destroy(comm), UNISONO_OK);
}

TEST(ApiMemory, WhatIsLeftGoesWithTheCommunicator) {
  testing::on_ranks(2, [](unisono_comm_t comm, int) {
    void* memory;
    EXPECT_EQ(unisono_alloc(comm, 1 << 20, &memory), UNISONO_OK);
  });
}

TEST(ApiMemory, InCppItIsARangeThatFreesItself) {
  std::vector<Communicator> ranks = Communicator::local(2, {.settings = {"UNISONO_TIMEOUT=20s"}});
  std::vector<std::jthread> threads;
  for (Communicator& communicator : ranks) {
    threads.emplace_back([&communicator] {
      EXPECT_EQ(communicator.plan<float>(10000).form, "mapped");  // as all buffers between threads
      MappedArray<float> values(communicator, 10000);
      for (float& value : values) value = 1;
      communicator.all_reduce(values);
      communicator.all_reduce(std::span(values).subspan(100, 50), Op::kAvg);
      EXPECT_EQ(values[0], 2);
      EXPECT_EQ(values[100], 2);
      MappedArray<float> moved = std::move(values);
      EXPECT_EQ(moved.size(), 10000u);
      EXPECT_EQ(values.size(), 0u);  // NOLINT: what is left of it
      EXPECT_THROW(MappedArray<double>(communicator, SIZE_MAX), Error);
    });
  }
}

}  // namespace
}  // namespace unisono
