// SPDX-License-Identifier: Apache-2.0
// Groups: many buffers as one call, packed or not, right in either case and in the face of misuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unisono/unisono.h>

#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "tests/support/local_ranks.h"

namespace unisono::testing {
namespace {

using ::testing::HasSubstr;

// A buffer of a group, of a type whose sums here are exact.
struct Tensor {
  unisono_data_type_t type;
  unisono_op_t op;
  std::vector<int32_t> ints;
  std::vector<float> floats;

  size_t count() const { return type == UNISONO_INT32 ? ints.size() : floats.size(); }
  void* data() { return type == UNISONO_INT32 ? static_cast<void*>(ints.data()) : floats.data(); }
};

int value_of(size_t tensor, size_t element, int rank) {
  return static_cast<int>((tensor * 31 + element * 7) % 1000) + rank;
}

Tensor make_tensor(size_t index, unisono_data_type_t type, unisono_op_t op, size_t count,
                   int rank) {
  Tensor tensor{type, op, {}, {}};
  for (size_t i = 0; i < count; ++i) {
    if (type == UNISONO_INT32) {
      tensor.ints.push_back(value_of(index, i, rank));
    } else {
      tensor.floats.push_back(static_cast<float>(value_of(index, i, rank)));
    }
  }
  return tensor;
}

int expected(size_t tensor, size_t element, unisono_op_t op, int ranks) {
  const int first = value_of(tensor, element, 0);
  if (op == UNISONO_MAX) return first + ranks - 1;
  return ranks * first + ranks * (ranks - 1) / 2;
}

// How many elements are wrong.
size_t errors_of(const std::vector<Tensor>& tensors, int ranks) {
  size_t wrong = 0;
  for (size_t t = 0; t < tensors.size(); ++t)
    for (size_t i = 0; i < tensors[t].count(); ++i) {
      const int right = expected(t, i, tensors[t].op, ranks);
      wrong += tensors[t].type == UNISONO_INT32 ? tensors[t].ints[i] != right
                                                : tensors[t].floats[i] != static_cast<float>(right);
    }
  return wrong;
}

unisono_status_t reduce(unisono_comm_t comm, Tensor& tensor) {
  return unisono_all_reduce(comm, tensor.data(), tensor.data(), tensor.count(), tensor.type,
                            tensor.op, nullptr);
}

void run_group(unisono_comm_t comm, std::vector<Tensor>& tensors) {
  ASSERT_EQ(unisono_group_begin(comm), UNISONO_OK) << unisono_last_error();
  for (Tensor& tensor : tensors)
    ASSERT_EQ(reduce(comm, tensor), UNISONO_OK) << unisono_last_error();
  ASSERT_EQ(unisono_group_end(comm), UNISONO_OK) << unisono_last_error();
}

TEST(ApiGroup, AThousandSmallTensorsOfMixedKinds) {
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  for (const char* fuse :
       {"UNISONO_FUSE_BYTES=64K", "UNISONO_FUSE_BYTES=100", "UNISONO_FUSE_BYTES=0"}) {
    on_ranks(
        3,
        [&](unisono_comm_t comm, int rank) {
          for (unsigned round = 0; round < 2; ++round) {
            std::mt19937 random(seed + round);
            std::vector<Tensor> tensors;
            for (size_t i = 0; i < 1000; ++i) {
              const auto type = random() % 2 == 0 ? UNISONO_INT32 : UNISONO_FLOAT32;
              const auto op = random() % 3 == 0 ? UNISONO_MAX : UNISONO_SUM;
              tensors.push_back(make_tensor(i, type, op, random() % 60, rank));
            }
            run_group(comm, tensors);
            EXPECT_EQ(errors_of(tensors, 3), 0u) << fuse;
          }
        },
        TestOptions(fuse));
  }
}

TEST(ApiGroup, SmallAndLargeInPlaceAndNot) {
  on_ranks(2, [](unisono_comm_t comm, int rank) {
    // Together more than one pack, and some that are not packed.
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < 90; ++i)
      tensors.push_back(
          make_tensor(i, UNISONO_FLOAT32, UNISONO_SUM, i % 9 == 0 ? 50'000 : 16'000, rank));
    run_group(comm, tensors);
    EXPECT_EQ(errors_of(tensors, 2), 0u);

    const std::vector<int32_t> input(10, rank + 1);
    std::vector<int32_t> first(10), second(10);
    ASSERT_EQ(unisono_group_begin(comm), UNISONO_OK);
    for (std::vector<int32_t>* output : {&first, &second})
      EXPECT_EQ(unisono_all_reduce(comm, input.data(), output->data(), 10, UNISONO_INT32,
                                   UNISONO_SUM, nullptr),
                UNISONO_OK);
    ASSERT_EQ(unisono_group_end(comm), UNISONO_OK) << unisono_last_error();
    EXPECT_EQ(first, std::vector<int32_t>(10, 3));
    EXPECT_EQ(second, first);
  });
}

TEST(ApiGroup, EmptyGroupsAndEmptyTensors) {
  on_ranks(2, [](unisono_comm_t comm, int rank) {
    ASSERT_EQ(unisono_group_begin(comm), UNISONO_OK);
    ASSERT_EQ(unisono_group_end(comm), UNISONO_OK) << unisono_last_error();
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < 3; ++i)
      tensors.push_back(make_tensor(i, UNISONO_INT32, UNISONO_SUM, 0, rank));
    run_group(comm, tensors);
    tensors.push_back(make_tensor(3, UNISONO_INT32, UNISONO_SUM, 5, rank));
    run_group(comm, tensors);
    EXPECT_EQ(errors_of(tensors, 2), 0u);
  });
}

TEST(ApiGroup, ChoicesHoldInGroups) {
  on_ranks(3, [](unisono_comm_t comm, int rank) {
    std::vector<int32_t> a(5, rank), b(7, rank), c(9, rank);
    unisono_call_options_t ring = UNISONO_CALL_OPTIONS_INIT, wrong = ring;
    ring.choice = "ring";
    wrong.choice = "ring codec=fp16";
    ASSERT_EQ(unisono_group_begin(comm), UNISONO_OK);
    const auto note = [&](std::vector<int32_t>& v, const unisono_call_options_t* options) {
      return unisono_all_reduce(comm, v.data(), v.data(), v.size(), UNISONO_INT32, UNISONO_SUM,
                                options);
    };
    EXPECT_EQ(note(a, &ring), UNISONO_OK);
    EXPECT_EQ(note(b, nullptr), UNISONO_OK);
    EXPECT_EQ(note(c, &ring), UNISONO_OK);
    EXPECT_EQ(unisono_group_end(comm), UNISONO_OK) << unisono_last_error();
    for (const std::vector<int32_t>* v : {&a, &b, &c})
      for (const int32_t value : *v) EXPECT_EQ(value, 3);

    // What cannot run is found when its turn comes; the same on all ranks, which can go on.
    ASSERT_EQ(unisono_group_begin(comm), UNISONO_OK);
    EXPECT_EQ(note(a, &ring), UNISONO_OK);
    EXPECT_EQ(note(b, &wrong), UNISONO_OK);
    EXPECT_EQ(unisono_group_end(comm), UNISONO_UNSUPPORTED);
    EXPECT_EQ(note(c, nullptr), UNISONO_OK) << unisono_last_error();
  });
}

TEST(ApiGroup, MisuseIsToldAndHarmless) {
  on_ranks(2, [](unisono_comm_t comm, int rank) {
    const unisono_status_t kWrong = UNISONO_INVALID_ARGUMENT;
    EXPECT_EQ(unisono_group_end(comm), kWrong);
    EXPECT_THAT(unisono_last_error(), HasSubstr("no group is open"));
    EXPECT_EQ(unisono_group_discard(comm), kWrong);

    Tensor tensor = make_tensor(0, UNISONO_INT32, UNISONO_SUM, 5, rank);
    const Tensor before = tensor;
    unisono_request_t request;
    EXPECT_EQ(unisono_group_begin(comm), UNISONO_OK);
    EXPECT_EQ(unisono_group_begin(comm), kWrong);
    EXPECT_THAT(unisono_last_error(), HasSubstr("do not nest"));
    EXPECT_EQ(unisono_all_reduce_start(comm, tensor.data(), tensor.data(), 5, UNISONO_INT32,
                                       UNISONO_SUM, nullptr, &request),
              kWrong);
    EXPECT_THAT(unisono_last_error(), HasSubstr("not inside a group"));
    EXPECT_EQ(reduce(comm, tensor), UNISONO_OK);
    EXPECT_EQ(
        unisono_all_reduce(comm, nullptr, tensor.data(), 5, UNISONO_INT32, UNISONO_SUM, nullptr),
        kWrong);
    EXPECT_EQ(unisono_all_reduce(comm, tensor.data(), tensor.data(), 5, 99, UNISONO_SUM, nullptr),
              kWrong);
    EXPECT_EQ(unisono_group_end(comm), kWrong) << "a call of the group was wrong";
    EXPECT_THAT(unisono_last_error(), HasSubstr("a call of the group: input is null"));
    EXPECT_EQ(tensor.ints, before.ints) << "the group ran";

    EXPECT_EQ(unisono_group_begin(comm), UNISONO_OK);
    EXPECT_EQ(reduce(comm, tensor), UNISONO_OK);
    EXPECT_EQ(unisono_group_discard(comm), UNISONO_OK);
    EXPECT_EQ(tensor.ints, before.ints) << "the group ran";

    std::vector<Tensor> tensors{tensor};
    run_group(comm, tensors);
    EXPECT_EQ(errors_of(tensors, 2), 0u);
  });
}

// Ranks that pack other tensors than their peers must not add them up, though the packs are as
// long.
TEST(ApiGroup, AnotherOrderOfTensorsIsAMismatch) {
  on_ranks(2, [](unisono_comm_t comm, int rank) {
    std::vector<float> a(300, 1), b(500, 2);
    std::vector<float>* order[] = {rank == 0 ? &a : &b, rank == 0 ? &b : &a};
    ASSERT_EQ(unisono_group_begin(comm), UNISONO_OK);
    for (std::vector<float>* v : order)
      ASSERT_EQ(unisono_all_reduce(comm, v->data(), v->data(), v->size(), UNISONO_FLOAT32,
                                   UNISONO_SUM, nullptr),
                UNISONO_OK);
    const unisono_status_t status = unisono_group_end(comm);
    EXPECT_TRUE(status == UNISONO_MISMATCH || status == UNISONO_PEER_FAILED)
        << status << ": " << unisono_last_error();
    EXPECT_EQ(a, std::vector<float>(300, 1));
    EXPECT_EQ(b, std::vector<float>(500, 2));
  });
}

}  // namespace
}  // namespace unisono::testing
