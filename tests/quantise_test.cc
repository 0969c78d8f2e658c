// SPDX-License-Identifier: Apache-2.0
// A codec in every algorithm's schedules: proven at every rank count, and counted.
#include "schedule/quantise.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "algorithms/registry.h"
#include "schedule/explain.h"
#include "schedule/verify.h"

namespace unisono {
namespace {

Shape shape_of(const Algorithm& algorithm, int ranks) {
  Shape shape{.size = ranks};
  shape.parameters = *resolve_parameters(algorithm, {});
  return shape;
}

// Shapes of `ranks` ranks that the algorithm says it serves: roots, servers, parameters.
std::vector<Shape> shapes_of(const Algorithm& algorithm, int ranks) {
  std::vector<Shape> shapes;
  for (int root : std::set{0, ranks - 1}) {
    Shape shape = shape_of(algorithm, ranks);
    shape.root = root;
    shapes.push_back(shape);
    std::vector<int> all_but_last(static_cast<size_t>(ranks) - 1);
    std::iota(all_but_last.begin(), all_but_last.end(), 0);
    for (const auto& servers : {std::vector{root}, std::vector{ranks - 1}, all_but_last}) {
      shape.servers = servers;
      shapes.push_back(shape);
    }
  }
  for (const ParameterSpec& spec : algorithm.parameters) {
    shapes.push_back(shape_of(algorithm, ranks));
    shapes.back().parameters.set(spec.name, std::to_string(std::min(spec.min + 2, spec.max)));
  }
  std::erase_if(shapes, [&](const Shape& shape) { return !algorithm.supports(shape).ok(); });
  return shapes;
}

std::vector<Schedule> build_all_quantised(const Algorithm& algorithm, Shape shape,
                                          const OnLink& on_link = {}) {
  std::vector<Schedule> schedules;
  for (shape.rank = 0; shape.rank < shape.size; ++shape.rank)
    schedules.push_back(build_quantised(algorithm, shape, on_link));
  return schedules;
}

class EveryAlgorithm : public testing::TestWithParam<const Algorithm*> {};

TEST_P(EveryAlgorithm, IsProvenWithACodec) {
  for (int ranks = 1; ranks <= 33; ++ranks) {
    for (const Shape& shape : shapes_of(*GetParam(), ranks)) {
      const auto plain = build_all(*GetParam(), shape);
      const auto schedules = quantise(plain, shape.contributors());
      const Verification before = verify(plain, {.servers = shape.servers});
      for (int slices : {1, 3}) {
        const Verification result =
            verify(schedules, {.slices = slices, .credits = 1, .servers = shape.servers});
        ASSERT_TRUE(result.ok()) << ranks << " ranks, root " << shape.root << ", "
                                 << shape.servers.size() << " servers: " << name_of(result.fault)
                                 << ": " << result.explanation;
        EXPECT_EQ(result.rounds, before.rounds) << ranks << " ranks";
        EXPECT_EQ(result.quantisation.most > 0, ranks > 1);
        for (int rank = 0; rank < ranks; ++rank)
          EXPECT_EQ(result.ranks[rank].chunks_sent, before.ranks[rank].chunks_sent);
      }
    }
  }
}

TEST_P(EveryAlgorithm, EncodesEveryMessage) {
  for (const Schedule& schedule : build_all_quantised(*GetParam(), shape_of(*GetParam(), 6)))
    for (const PeerMessage& peer : schedule.peers) EXPECT_TRUE(peer.encoded);
}

TEST_P(EveryAlgorithm, IsTheSameBuiltAloneOrTogether) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (const Shape& shape : shapes_of(*GetParam(), ranks))
      EXPECT_EQ(build_all_quantised(*GetParam(), shape),
                quantise(build_all(*GetParam(), shape), shape.contributors()))
          << ranks;
}

// Without the decoding of what a rank sends and goes on using, ranks differ.
TEST_P(EveryAlgorithm, NeedsEveryStepOfTheCodec) {
  const auto schedules = build_all_quantised(*GetParam(), shape_of(*GetParam(), 5));
  int removed = 0;
  for (const Schedule& schedule : schedules) {
    for (size_t index = 0; index < schedule.steps.size(); ++index) {
      if (schedule.steps[index].kind != StepKind::kDecode) continue;
      auto cut = schedules;
      Step& step = cut[schedule.rank].steps[index];
      step.kind = StepKind::kCopy;
      step.source = {Space::kInput};
      step.target = {Space::kOutput};
      EXPECT_FALSE(verify(cut).ok()) << explain_step(schedule, index);
      ++removed;
    }
  }
  EXPECT_GT(removed, 0);
}

// Two hosts of unequal size, and every rank a host of its own but two.
TEST_P(EveryAlgorithm, IsProvenWithACodecBetweenHostsOnly) {
  // Ranks of unequal hosts add what came through the codec to what did not, each in its own way.
  const bool symmetric_only = GetParam()->name == "recursive_doubling";
  for (int ranks = 2; ranks <= 17; ++ranks) {
    for (int first_host : {1, 2, ranks / 2}) {
      const auto host_of = [&](int rank) { return rank < first_host ? 0 : 1; };
      const OnLink between_hosts = [&](int from, int to) { return host_of(from) != host_of(to); };
      for (const Shape& shape : shapes_of(*GetParam(), ranks)) {
        const Verification result = verify(build_all_quantised(*GetParam(), shape, between_hosts),
                                           {.servers = shape.servers});
        if (symmetric_only && !result.ok()) {
          EXPECT_EQ(name_of(result.fault), name_of(Fault::kOrder)) << result.explanation;
          continue;
        }
        ASSERT_TRUE(result.ok()) << ranks << " ranks, " << first_host << " on the first host, root "
                                 << shape.root << ", " << shape.servers.size()
                                 << " servers: " << name_of(result.fault) << ": "
                                 << result.explanation;
      }
    }
  }
}

struct Counts {
  uint32_t most, held;
  bool operator==(const Counts&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Counts& counts) {
  return out << counts.most << " times, in sums of " << counts.held;
}

// How often a contribution is encoded, and in sums of how many.
const struct {
  std::string_view algorithm;
  Counts (*counts)(uint32_t p);
} kCounts[] = {
    {"naive_ps",
     [](uint32_t p) {
       return Counts{2, p};
     }},
    {"sharded_ps",
     [](uint32_t p) {
       return Counts{2, p};
     }},
    {"pairwise",
     [](uint32_t p) {
       return Counts{2, p};
     }},
    {"ring",
     [](uint32_t p) {
       return Counts{p, p};
     }},
    {"one_shot",
     [](uint32_t) {
       return Counts{1, 1};
     }},
};

TEST(Quantise, CountsEncodings) {
  for (const auto& [name, counts] : kCounts) {
    const Algorithm& algorithm = *find_algorithm(name);
    for (int ranks = 2; ranks <= 16; ++ranks) {
      const Verification result =
          verify(build_all_quantised(algorithm, shape_of(algorithm, ranks)));
      EXPECT_EQ((Counts{result.quantisation.most, result.quantisation.held}),
                counts(static_cast<uint32_t>(ranks)))
          << name << ", " << ranks << " ranks";
    }
  }
}

TEST(Quantise, ComputesTheAddedError) {
  const auto error = [](const char* name, int ranks, double relative_error) {
    const Algorithm& algorithm = *find_algorithm(name);
    return verify(build_all_quantised(algorithm, shape_of(algorithm, ranks)),
                  {.relative_error = relative_error})
        .quantisation.error;
  };
  constexpr double kRounding = 1e-5;
  EXPECT_NEAR(error("one_shot", 4, 0.01), 4 * 0.01, kRounding);
  // Three of four contributions are encoded, then the sum with its error.
  EXPECT_NEAR(error("sharded_ps", 4, 0.01), 0.03 + 0.01 * 4.03, kRounding);
  // Sums of 1, 2, 3 and 4.
  EXPECT_NEAR(error("ring", 4, 0.01), 0.1, 0.003);
  EXPECT_LT(error("ring", 4, 0), kRounding);
}

std::string explained(const char* name, int ranks, int rank) {
  const Algorithm& algorithm = *find_algorithm(name);
  return fmt::format("\n{}", explain(build_all_quantised(algorithm, shape_of(algorithm, ranks))[rank]));
}

TEST(Quantise, LooksLikeThis) {
  EXPECT_EQ(explained("ring", 3, 0), R"(
all_reduce, rank 0 of 3: 3 chunks, 14 steps
   0 encode      chunk 0     encoded[0] = encode(input)           worker residual
   1 send        chunk 0     encoded[0] to 1 #0                   after 0, encoded
   2 recv_reduce chunk 2     output = input + from 2 #0           encoded
   3 encode      chunk 2     encoded[0] = encode(output)          after 2, worker residual
   4 send        chunk 2     encoded[0] to 1 #1                   after 3, encoded
   5 recv_reduce chunk 1     output = input + from 2 #1           encoded, worker residual, finishes
   6 encode      chunk 1     encoded[0] = encode(output)          after 5, owner residual
   7 decode      chunk 1     output = decode(encoded[0])          after 5…6
   8 send        chunk 1     encoded[0] to 1 #2                   after 6, encoded
   9 recv        chunk 0     encoded[0] = from 2 #2               after 0…1, encoded
  10 decode      chunk 0     output = decode(encoded[0])          after 0, 9
  11 send        chunk 0     encoded[0] to 1 #3                   after 9, encoded
  12 recv        chunk 2     encoded[0] = from 2 #3               after 3…4, encoded
  13 decode      chunk 2     output = decode(encoded[0])          after 2…3, 12
)");
  // Rank 1 hands the result back to rank 0, so rank 2, which computes it too, encodes it as well.
  EXPECT_EQ(explained("recursive_doubling", 3, 2), R"(
all_reduce, rank 2 of 3: 1 chunk, 6 steps
   0 encode      chunk 0     encoded[0] = encode(input)           worker residual
   1 decode      chunk 0     output = decode(encoded[0])          after 0
   2 send        chunk 0     encoded[0] to 1 #0                   after 0, encoded
   3 recv_reduce chunk 0     output = from 1 #0 + output          after 1, encoded, finishes
   4 encode      chunk 0     encoded[0] = encode(output)          after 0…3
   5 decode      chunk 0     output = decode(encoded[0])          after 3…4
)");
}

INSTANTIATE_TEST_SUITE_P(Table, EveryAlgorithm,
                         testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace unisono
