// SPDX-License-Identifier: Apache-2.0
#include "tools/rank_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

namespace unisono {
namespace {

// A part as bytes: this, then its times.
struct Head {
  uint64_t wire_bytes;
  CodecCost codec_cost;
  uint64_t hash;
  Verdict verdict;
};

void append(const RankPart& part, std::string& bytes) {
  const Head head{part.wire_bytes, part.codec_cost, part.hash, part.verdict};
  bytes.append(reinterpret_cast<const char*>(&head), sizeof(head));
  bytes.append(reinterpret_cast<const char*>(part.times_us.data()), part.times_us.size() * sizeof(double));
}

RankPart take(std::string_view& bytes, size_t times) {
  Head head;
  std::memcpy(&head, bytes.data(), sizeof(head));
  RankPart part{head.wire_bytes, head.codec_cost, head.hash, head.verdict, std::vector<double>(times)};
  std::memcpy(part.times_us.data(), bytes.data() + sizeof(head), times * sizeof(double));
  bytes.remove_prefix(sizeof(head) + times * sizeof(double));
  return part;
}

std::string fault_of(size_t rank, const RankPart& part, const RankPart& first) {
  const Verdict& verdict = part.verdict;
  if (verdict.wrong > 0)
    return fmt::format("rank {}: element {} is {}, expected {}", rank, verdict.first_wrong, verdict.got,
                       verdict.expected);
  return part.hash == first.hash ? "" : fmt::format("rank {}: other bits than rank 0", rank);
}

}  // namespace

Status out_of_step(size_t rank) {
  return Status(StatusCode::kPeerFailed, fmt::format("rank {} has given up the measurement", rank));
}

Result<std::vector<std::vector<RankPart>>> exchange_parts(Communicator& communicator,
                                                          std::span<const RankPart> mine) {
  std::string bytes;
  for (const RankPart& part : mine) append(part, bytes);
  const auto all = communicator.all_gather(bytes);
  if (!all.ok()) return all.status();
  std::vector<std::vector<RankPart>> parts(mine.size());
  for (size_t rank = 0; rank < all->size(); ++rank) {
    if ((*all)[rank].size() != bytes.size()) return out_of_step(rank);
    std::string_view rest = (*all)[rank];
    for (size_t i = 0; i < mine.size(); ++i) parts[i].push_back(take(rest, mine[i].times_us.size()));
  }
  return parts;
}

void merge(std::span<const RankPart> ranks, bool checked, bool has_floats, Measurement& measurement) {
  Measurement& m = measurement;
  const RankPart& first = ranks.front();
  m.samples_us = first.times_us;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankPart& part = ranks[rank];
    std::ranges::transform(part.times_us, m.samples_us, m.samples_us.begin(),
                           [](double a, double b) { return std::max(a, b); });
    if (m.fault.empty()) m.fault = fault_of(rank, part, first);
    m.wrong += part.verdict.wrong;
    m.max_error = std::max(m.max_error, part.verdict.max_error);
    m.bit_identical = m.bit_identical && part.hash == first.hash;
    m.wire_bytes = std::max(m.wire_bytes, part.wire_bytes);
  }
  if (!has_floats) return;
  const Verdict& verdict = first.verdict;
  if (checked && verdict.reference_squares > 0) {
    m.relative_error = std::sqrt(verdict.error_squares / verdict.reference_squares);
    m.share_of_bound = verdict.share_of_bound;
  }
  if (m.plan.choice.codec != "none") m.codec_cost = first.codec_cost;
}

}  // namespace unisono
