// SPDX-License-Identifier: Apache-2.0
// The C++ interface: types become data types, failures become exceptions, owners own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cstring>
#include <span>
#include <thread>
#include <unisono/unisono.hpp>
#include <vector>

struct MyHalf {
  uint16_t bits;
};
template <>
inline constexpr unisono_data_type_t unisono::data_type_of<MyHalf> = UNISONO_FLOAT16;

namespace unisono::testing {
namespace {

using ::testing::HasSubstr;

static_assert(data_type_of<char> == (std::is_signed_v<char> ? UNISONO_INT8 : UNISONO_UINT8));
static_assert(data_type_of<unsigned char> == UNISONO_UINT8);
static_assert(data_type_of<int> == UNISONO_INT32 && data_type_of<unsigned> == UNISONO_UINT32);
static_assert(data_type_of<long long> == UNISONO_INT64 && data_type_of<size_t> == UNISONO_UINT64);
static_assert(data_type_of<float> == UNISONO_FLOAT32 && data_type_of<double> == UNISONO_FLOAT64);
static_assert(!Element<bool> && !Element<short> && !Element<long double> && !Element<void*>);
static_assert(OutputBuffer<std::vector<float>&> && OutputBuffer<std::span<int>>);
static_assert(!OutputBuffer<const std::vector<float>&> && !OutputBuffer<std::span<const int>>);
static_assert(!OutputBuffer<std::vector<float>>, "its result would be lost");
static_assert(!std::is_copy_constructible_v<Communicator> &&
              !std::is_copy_constructible_v<Request>);

void on_ranks(int size, const std::function<void(Communicator&)>& body) {
  std::vector<Communicator> ranks =
      Communicator::local(size, {.settings = {"UNISONO_TIMEOUT=20s"}});
  std::vector<std::jthread> threads;
  for (Communicator& rank : ranks) threads.emplace_back([&] { body(rank); });
}

TEST(ApiCpp, ReducesRangesOfNumbers) {
  on_ranks(3, [](Communicator& communicator) {
    const int rank = communicator.rank();
    std::vector<float> values(100, static_cast<float>(rank));
    communicator.all_reduce(values);
    EXPECT_EQ(values, std::vector<float>(100, 3));

    const std::array<int64_t, 2> input{rank, 10 + rank};
    std::array<int64_t, 2> output{};
    communicator.all_reduce(input, output, Op::kMax);
    EXPECT_EQ(output, (std::array<int64_t, 2>{2, 12}));

    communicator.all_reduce(std::span(values).first(2), Op::kAvg, "ring depth=2");
    EXPECT_EQ(values[0], 3);
    std::vector<MyHalf> halves{{0x3c00}};  // 1
    communicator.all_reduce(halves);
    EXPECT_EQ(halves[0].bits, 0x4200);  // 3

    EXPECT_EQ(communicator.plan<double>(10, Op::kSum, "ring").reason, "forced by the call");
  });
}

TEST(ApiCpp, RequestsEndByWaitTestOrDestruction) {
  on_ranks(2, [](Communicator& communicator) {
    std::vector<int32_t> a{1}, b{2}, c{3};
    {
      Request first = communicator.start(a);
      Request second = communicator.start(b);
      Request third = communicator.start(c);
      while (!third.test()) {
      }
      EXPECT_FALSE(third.pending());
      Request moved = std::move(second);
      EXPECT_FALSE(second.pending());
      moved.wait();
      moved.wait();
      EXPECT_TRUE(moved.test());
    }
    EXPECT_EQ(a[0] + b[0] + c[0], 2 + 4 + 6);
  });
}

TEST(ApiCpp, GroupsRunOrAreDiscarded) {
  on_ranks(2, [](Communicator& communicator) {
    std::vector<int32_t> a{1, 2}, b{3};
    communicator.group([&] {
      communicator.all_reduce(a);
      communicator.all_reduce(b);
    });
    EXPECT_EQ(a, (std::vector<int32_t>{2, 4}));
    EXPECT_EQ(b, (std::vector<int32_t>{6}));
    EXPECT_THROW(communicator.group([&] {
      communicator.all_reduce(a);
      throw std::logic_error("never mind");
    }),
                 std::logic_error);
    EXPECT_EQ(a, (std::vector<int32_t>{2, 4}));
    communicator.all_reduce(b);
    EXPECT_EQ(b[0], 12);
  });
}

TEST(ApiCpp, ErrorsCarryStatusAndText) {
  const auto failure = [](auto&& body) {
    try {
      body();
    } catch (const Error& error) {
      return error;
    }
    return Error(UNISONO_OK, "nothing was thrown");
  };
  Error error = failure([] { Communicator::local(0); });
  EXPECT_EQ(error.status(), UNISONO_INVALID_ARGUMENT);
  EXPECT_THAT(error.what(), HasSubstr("invalid argument: unisono_comm_create_local: size is 0"));
  Communicator alone = std::move(Communicator::local(1).front());
  std::vector<float> two(2), three(3);
  error = failure([&] { alone.all_reduce(two, three); });
  EXPECT_STREQ(error.what(), "invalid argument: input has 2 elements, output has 3");
  error = failure([&] { alone.all_reduce(two, Op::kSum, "rng"); });
  EXPECT_THAT(error.what(), HasSubstr("did you mean ring?"));
  alone.abort();
  error = failure([&] { alone.all_reduce(two); });
  EXPECT_EQ(error.status(), UNISONO_ABORTED);
}

TEST(ApiCpp, UniqueIdsAndCallbacksBringRanksTogether) {
  constexpr int kRanks = 3;
  const UniqueId id = make_unique_id();
  std::barrier meeting(kRanks);
  std::array<const void*, kRanks> posted{};
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      const auto all_gather = [&](std::span<const std::byte> mine, std::span<std::byte> all) {
        posted[static_cast<size_t>(rank)] = mine.data();
        meeting.arrive_and_wait();
        for (size_t peer = 0; peer < kRanks; ++peer)
          std::memcpy(&all[peer * mine.size()], posted[peer], mine.size());
        meeting.arrive_and_wait();
      };
      Communicator by_callback = Communicator::from_callback(all_gather, kRanks, rank);
      Communicator by_id =
          Communicator::create(id, kRanks, rank, {.settings = {"UNISONO_TIMEOUT=20s"}});
      for (Communicator* communicator : {&by_callback, &by_id}) {
        std::vector<int> values{rank};
        communicator->all_reduce(values);
        EXPECT_EQ(values[0], 3);
      }
    });
}

TEST(ApiCpp, ACallbacksExceptionComesOut) {
  EXPECT_THROW(
      Communicator::from_callback([](auto, auto) { throw std::logic_error("no network"); }, 2, 0),
      std::logic_error);
}

}  // namespace
}  // namespace unisono::testing
