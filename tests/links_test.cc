// SPDX-License-Identifier: Apache-2.0
// A codec on the links between hosts only: who encodes what, on simulated hosts, and that all ranks
// still end with the bits that the schedules define.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "algorithms/registry.h"
#include "execute/call.h"
#include "schedule/quantise.h"
#include "select/codec_limits.h"
#include "tools/codec_reference.h"
#include "transports/simulated/network.h"

namespace unisono {
namespace {

using ::testing::HasSubstr;

constexpr size_t kCount = 3001;
using Vector = std::vector<float>;
using Hosts = std::vector<int>;  // of each rank

Vector input_of(int rank) {
  Vector values(kCount);
  for (size_t i = 0; i < kCount; ++i)
    values[i] = std::sin(static_cast<float>(i * 37 % 1000) + 0.7f * static_cast<float>(rank));
  return values;
}

Shape shape_of(const Algorithm& algorithm, const Hosts& hosts, int rank = 0) {
  Shape shape{.rank = rank, .size = static_cast<int>(hosts.size()), .groups = hosts};
  shape.parameters = *resolve_parameters(algorithm, {});
  return shape;
}

std::shared_ptr<const Plan> plan_of(const Algorithm& algorithm, const Codec* codec,
                                    const Shape& shape, CodecLinks links) {
  return std::make_shared<const Plan>(
      make_plan({.algorithm = &algorithm,
                 .codec = codec,
                 .choice = {.algorithm = std::string(algorithm.name),
                            .codec = std::string(name_of(codec)),
                            .depth = 2,
                            .links = links},
                 .reason = "asked for",
                 .shape = shape,
                 .count = kCount,
                 .type = DataType::kFloat32,
                 .op = ReduceOp::kSum,
                 .slice_bytes = 1024,
                 .mapped = false}));
}

// All ranks' results, by one thread over a simulated network.
std::vector<Vector> run(const Algorithm& algorithm, const Codec& codec, const Hosts& hosts,
                        CodecLinks links) {
  const int size = static_cast<int>(hosts.size());
  const auto network = SimulatedNetwork::create(size, {});
  struct Rank {
    std::unique_ptr<Transport> transport;
    std::vector<Channel*> channels;
    Vector input, output;
    std::unique_ptr<Call> call;
  };
  std::vector<Rank> ranks(hosts.size());
  for (int rank = 0; rank < size; ++rank) {
    Rank& mine = ranks[static_cast<size_t>(rank)];
    mine.transport = network->transport(rank);
    for (int peer = 0; peer < size; ++peer)
      mine.channels.push_back(peer == rank ? nullptr : &mine.transport->channel(peer));
    mine.input = input_of(rank);
    mine.output.resize(kCount);
    mine.call =
        std::make_unique<Call>(plan_of(algorithm, &codec, shape_of(algorithm, hosts, rank), links),
                               mine.channels, std::span<DirectBlock* const>(), std::span<const int>());
    mine.call->begin(0, mine.input.data(), mine.output.data());
  }
  const auto finished = [](const Rank& rank) { return rank.call->finished(); };
  for (int turn = 0; turn < 100000 && !std::ranges::all_of(ranks, finished); ++turn) {
    for (Rank& rank : ranks) {
      rank.transport->progress();
      rank.call->advance();
    }
  }
  std::vector<Vector> results;
  for (Rank& rank : ranks) {
    EXPECT_TRUE(rank.call->finished()) << rank.call->describe_wait();
    results.push_back(std::move(rank.output));
  }
  return results;
}

uint64_t wire_bytes(const Algorithm& algorithm, const Codec* codec, const Hosts& hosts,
                    CodecLinks links) {
  uint64_t sum = 0;
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank)
    sum += plan_of(algorithm, codec, shape_of(algorithm, hosts, rank), links)->wire_bytes();
  return sum;
}

class Links : public ::testing::TestWithParam<const Algorithm*> {};

TEST_P(Links, BetweenHostsGivesTheDefinedBitsOnAllRanks) {
  const Algorithm& algorithm = *GetParam();
  for (const Hosts& hosts :
       {Hosts{0, 1}, Hosts{0, 0, 1, 1}, Hosts{0, 1, 0, 1}, Hosts{0, 0, 0, 1, 2}}) {
    const Shape shape = shape_of(algorithm, hosts);
    for (const Codec* codec : codec_table()) {
      SCOPED_TRACE(::testing::Message() << codec->name << ", " << hosts.size() << " ranks");
      const auto between = CodecLinks::kBetweenHosts;
      const auto quantisation = quantisation_of(algorithm, shape, codec, between);
      if (!quantisation.ok()) {
        EXPECT_EQ(algorithm.name, "recursive_doubling");
        EXPECT_EQ(quantisation.status().code(), StatusCode::kUnsupported);
        EXPECT_THAT(std::string(quantisation.status().message()),
                    HasSubstr("recursive_doubling with a codec on some links only"));
        continue;
      }
      EXPECT_GT(quantisation->most, 0u);
      const std::vector<Vector> results = run(algorithm, *codec, hosts, between);
      const CodecReference reference(algorithm, shape, codec, ReduceOp::kSum, between);
      const Verdict verdict = reference.check(
          [](int rank, size_t first, size_t count, float* values) {
            std::copy_n(input_of(rank).begin() + static_cast<ptrdiff_t>(first), count, values);
          },
          results[0].data(), kCount, plan_of(algorithm, codec, shape, between)->slices);
      EXPECT_EQ(verdict.wrong, 0u) << "element " << verdict.first_wrong;
      EXPECT_GT(verdict.max_error, 0);
      for (const Vector& result : results) EXPECT_EQ(result, results[0]);
    }
  }
}

TEST_P(Links, BetweenHostsEncodesNoMoreThanItMust) {
  const Algorithm& algorithm = *GetParam();
  const Codec* const codec = *find_codec("onebit");
  const Hosts hosts{0, 0, 1, 1};
  const auto bytes = [&](const Codec* c, CodecLinks links) {
    return wire_bytes(algorithm, c, hosts, links);
  };
  EXPECT_LT(bytes(codec, CodecLinks::kAll), bytes(codec, CodecLinks::kBetweenHosts));
  EXPECT_LT(bytes(codec, CodecLinks::kBetweenHosts), bytes(nullptr, CodecLinks::kAll));
  for (const Schedule& schedule :
       quantise(build_all(algorithm, shape_of(algorithm, hosts)), 4,
                on_links(CodecLinks::kBetweenHosts, shape_of(algorithm, hosts)))) {
    for (const Step& step : schedule.steps) {
      if (step.kind != StepKind::kRecvReduce) continue;
      for (const PeerMessage& peer : schedule.peers_of(step))
        EXPECT_EQ(peer.encoded, peer.rank / 2 != schedule.rank / 2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Links,
                         ::testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST(LinksOfAChoice, WithoutASecondHostNoCodecRuns) {
  const Algorithm& ring = *find_algorithm("ring");
  const Choice choice = *parse_choice("ring codec=int8 links=between_hosts depth=2", algorithms());
  const auto on = [&](const Hosts& hosts) {
    return to_string(on_hosts(choice, shape_of(ring, hosts)), algorithms());
  };
  EXPECT_EQ(on({0, 0, 0}), "ring depth=2");
  EXPECT_EQ(on({0, 0, 1}), "ring codec=int8 links=between_hosts depth=2");
  EXPECT_EQ(to_string(on_hosts(choice, {.size = 3}), algorithms()), "ring depth=2");
}

// Its ranks all add the same sums, so all must add them from the same messages.
TEST(LinksOfAChoice, AnAlgorithmWhoseRanksWouldDifferIsRefused) {
  const Algorithm& algorithm = *find_algorithm("recursive_doubling");
  const Codec* const codec = *find_codec("int8");
  EXPECT_TRUE(quantisation_of(algorithm, shape_of(algorithm, {0, 1, 1, 1}), codec).ok());
  const auto result = quantisation_of(algorithm, shape_of(algorithm, {0, 1, 1, 1}), codec,
                                      CodecLinks::kBetweenHosts);
  EXPECT_EQ(result.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("recursive_doubling with a codec on some links only"));
}

TEST(LinksOfAChoice, WhatWasFoundIsRemembered) {
  Quantisations known;
  for (int turn = 0; turn < 2; ++turn) {
    for (const Algorithm* algorithm : algorithms()) {
      for (const Codec* codec : codec_table()) {
        for (const CodecLinks links : {CodecLinks::kAll, CodecLinks::kBetweenHosts}) {
          const Shape shape = shape_of(*algorithm, {0, 1, 1, 1});
          const auto remembered = known.of(*algorithm, shape, codec, links);
          const auto fresh = quantisation_of(*algorithm, shape, codec, links);
          ASSERT_EQ(remembered.status().message(), fresh.status().message());
          if (fresh.ok()) {
            EXPECT_EQ(remembered->error, fresh->error);
          }
        }
      }
    }
  }
}

// Ranks that differ in it would wait for messages of other lengths: their signatures tell first.
TEST(LinksOfAChoice, AreAPartOfTheSignature) {
  const Algorithm& ring = *find_algorithm("ring");
  const Shape shape = shape_of(ring, {0, 1});
  const Codec* const codec = *find_codec("int8");
  const auto all = plan_of(ring, codec, shape, CodecLinks::kAll);
  const auto between = plan_of(ring, codec, shape, CodecLinks::kBetweenHosts);
  EXPECT_NE(all->signature, between->signature);
  EXPECT_EQ(between->signature_text.substr(0, all->signature_text.find(" slices")),
            "all_reduce 3001 f32 sum by ring codec=int8");
  EXPECT_THAT(between->signature_text, HasSubstr(" links=between_hosts"));
}

}  // namespace
}  // namespace unisono
