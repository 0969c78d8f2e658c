// SPDX-License-Identifier: Apache-2.0
// Every algorithm of the table is proven at every rank count, and costs what the cost table says.
#include "schedule/verify.h"

#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <set>

#include "algorithms/registry.h"

namespace unisono {
namespace {

std::vector<int> rank_counts() {
  std::vector<int> counts(33);
  std::iota(counts.begin(), counts.end(), 1);
  counts.push_back(64);
  return counts;
}

Shape shape_of(const Algorithm& algorithm, int ranks) {
  Shape shape{.size = ranks};
  shape.parameters = *resolve_parameters(algorithm, {});
  return shape;
}

// Shapes of `ranks` ranks that the algorithm says it serves: roots, servers, parameters.
std::vector<Shape> shapes_of(const Algorithm& algorithm, int ranks) {
  std::vector<Shape> shapes;
  for (int root : std::set{0, std::min(1, ranks - 1), ranks - 1}) {
    Shape shape = shape_of(algorithm, ranks);
    shape.root = root;
    shapes.push_back(shape);
    std::vector<int> half(static_cast<size_t>(ranks) / 2);
    std::iota(half.begin(), half.end(), 0);
    for (const auto& servers : {std::vector{root}, std::vector{ranks - 1}, half}) {
      shape.servers = servers;
      shapes.push_back(shape);
    }
  }
  for (const ParameterSpec& spec : algorithm.parameters) {
    for (int value : std::set{spec.min, std::min(spec.min + 1, spec.max),
                              std::min(spec.min + 3, spec.max), spec.max}) {
      shapes.push_back(shape_of(algorithm, ranks));
      shapes.back().parameters.set(spec.name, std::to_string(value));
    }
  }
  std::erase_if(shapes, [&](const Shape& shape) { return !algorithm.supports(shape).ok(); });
  return shapes;
}

class EveryAlgorithm : public testing::TestWithParam<const Algorithm*> {};

TEST_P(EveryAlgorithm, IsProvenForEveryShape) {
  int proofs = 0;
  for (int ranks : rank_counts()) {
    std::vector<Schedule> previous;
    for (const Shape& shape : shapes_of(*GetParam(), ranks)) {
      const std::vector<Schedule> schedules = build_all(*GetParam(), shape);
      if (schedules == previous) continue;  // the shape's difference makes none
      previous = schedules;
      for (int slices : {1, 2, 3}) {
        for (int credits : ranks <= 16 ? std::set{0, 1} : std::set{1}) {
          const Verification result =
              verify(schedules, {.slices = slices, .credits = credits, .servers = shape.servers});
          ASSERT_TRUE(result.ok())
              << ranks << " ranks, root " << shape.root << ", " << shape.servers.size()
              << " servers, " << slices << " slices, " << credits
              << " credits: " << name_of(result.fault) << ": " << result.explanation;
          ++proofs;
        }
      }
    }
  }
  EXPECT_GT(proofs, 0) << "supports no shape";
}

TEST_P(EveryAlgorithm, BuildsTheSameScheduleTwice) {
  for (const Shape& shape : shapes_of(*GetParam(), 6))
    EXPECT_EQ(build_all(*GetParam(), shape), build_all(*GetParam(), shape));
}

// The cost table of algorithms/README.md, for two ranks and more; the most that any rank does.
struct Cost {
  uint64_t steps;
  uint64_t chunks_sent, chunks;  // bytes sent are chunks_sent / chunks vectors
  uint64_t rounds, fan_in;
  AdditionOrder order;
  bool operator==(const Cost&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Cost& cost) {
  return out << cost.steps << " steps, sends " << cost.chunks_sent << "/" << cost.chunks << " in "
             << cost.rounds << " rounds, fan-in " << cost.fan_in << ", " << name_of(cost.order);
}

struct Ranks {
  uint64_t p;
  uint64_t log = std::bit_width(p) - 1;  // ⌊log2 p⌋
  uint64_t power = std::bit_floor(p);    // 2^log
  uint64_t excess = p == power ? 0 : 1;  // whether there are more than a power of two
};

constexpr AdditionOrder kOnePass = AdditionOrder::kOnePass, kOther = AdditionOrder::kOther;

AdditionOrder of_doubling(uint64_t p) {
  return p == 2 ? kOnePass : p == 3 ? AdditionOrder::kLeftFold : kOther;
}

const struct {
  std::string_view algorithm;
  Cost (*cost)(const Ranks&);
} kCosts[] = {
    {"naive_ps", [](const Ranks& r) { return Cost{2, r.p - 1, 1, 2, r.p - 1, kOnePass}; }},
    {"sharded_ps",
     [](const Ranks& r) {
       return Cost{3 * (r.p - 1) + 1, 2 * (r.p - 1), r.p, 2, r.p - 1, kOnePass};
     }},
    {"pairwise",
     [](const Ranks& r) {
       return Cost{
           4 * (r.p - 1), 2 * (r.p - 1), r.p, 2 * (r.p - 1), 1, r.p == 2 ? kOnePass : kOther};
     }},
    {"ring",
     [](const Ranks& r) {
       return Cost{
           4 * (r.p - 1), 2 * (r.p - 1), r.p, 2 * (r.p - 1), 1, r.p == 2 ? kOnePass : kOther};
     }},
    {"double_binary_tree",
     [](const Ranks& r) {
       return Cost{r.p < 4u ? 4u : 6u, r.p == 2 ? 2u : r.p < 5 ? 3u : 4u, 2, 2 * r.log,
                   r.p == 2 ? 1u : 2u, r.p < 4 ? kOnePass : kOther};
     }},
    {"one_shot", [](const Ranks& r) { return Cost{r.p, r.p - 1, 1, 1, r.p - 1, kOnePass}; }},
    {"recursive_doubling",
     [](const Ranks& r) {
       return Cost{2 * r.log + 2 * r.excess, r.log + r.excess, 1, r.log + 2 * r.excess, 1,
                   of_doubling(r.p)};
     }},
    {"halving_doubling",
     [](const Ranks& r) {
       return Cost{4 * r.log + 2 * r.excess,
                   2 * (r.power - 1) + r.excess * r.power,
                   r.power,
                   2 * r.log + 2 * r.excess,
                   1,
                   of_doubling(r.p)};
     }},
};

Cost count(const Verification& result) {
  Cost cost{0, 0, result.chunks, result.rounds, result.fan_in, result.order};
  uint64_t sent = 0, received = 0;
  for (const RankCost& rank : result.ranks) {
    cost.steps = std::max(cost.steps, rank.steps);
    cost.chunks_sent = std::max(cost.chunks_sent, rank.chunks_sent);
    sent += rank.chunks_sent;
    received += rank.chunks_received;
  }
  EXPECT_EQ(sent, received);
  return cost;
}

TEST(CostTable, HoldsByCounting) {
  for (const auto& [name, cost] : kCosts) {
    const Algorithm* algorithm = find_algorithm(name);
    ASSERT_NE(algorithm, nullptr) << name;
    for (int ranks : rank_counts()) {
      const Verification result = verify(build_all(*algorithm, shape_of(*algorithm, ranks)));
      ASSERT_TRUE(result.ok()) << name << ": " << result.explanation;
      const Cost counted = count(result);
      if (ranks == 1)
        EXPECT_EQ(counted, (Cost{1, 0, counted.chunks, 0, 0, kOnePass})) << name;
      else
        EXPECT_EQ(counted, cost({static_cast<uint64_t>(ranks)}))
            << name << ", " << ranks << " ranks";
    }
  }
}

TEST(ShardedPs, WindowBoundsTheFanIn) {
  const Algorithm& algorithm = *find_algorithm("sharded_ps");
  for (int window : {1, 2, 5}) {
    for (int ranks : {2, 4, 9, 16, 33}) {
      Shape shape = shape_of(algorithm, ranks);
      shape.parameters.set("window", std::to_string(window));
      const Verification result = verify(build_all(algorithm, shape));
      ASSERT_TRUE(result.ok()) << result.explanation;
      EXPECT_EQ(result.fan_in, static_cast<uint32_t>(std::min(window, ranks - 1)));
      EXPECT_EQ(result.rounds, 2u * static_cast<uint32_t>((ranks - 2 + window) / window));
    }
  }
}

// Where partners overwrite what they send each other, a view must be a copy.
TEST(MappedViews, AreEnoughButForExchangesOfWholeVectors) {
  const std::set<std::string_view> need_copies = {"one_shot", "recursive_doubling"};
  for (const auto& row : kCosts) {
    const Algorithm& algorithm = *find_algorithm(row.algorithm);
    const Verification result =
        verify(build_all(algorithm, shape_of(algorithm, 6)), {.slices = 3, .mapped_views = true});
    const Fault expected = need_copies.contains(row.algorithm) ? Fault::kDeadlock : Fault::kNone;
    EXPECT_EQ(name_of(result.fault), name_of(expected)) << row.algorithm << result.explanation;
  }
}

TEST(DoubleBinaryTree, NoRankIsAnInnerNodeOfBothTrees) {
  const Algorithm& algorithm = *find_algorithm("double_binary_tree");
  for (int ranks : rank_counts()) {
    for (const Schedule& schedule : build_all(algorithm, shape_of(algorithm, ranks))) {
      int inner = 0;
      for (const Step& step : schedule.steps) inner += step.kind == StepKind::kRecvReduce;
      EXPECT_LE(inner, 1) << "rank " << schedule.rank << " of " << ranks;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryAlgorithm,
                         testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace unisono
