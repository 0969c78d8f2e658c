// SPDX-License-Identifier: Apache-2.0
#include "schedule/values.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace unisono {

Values::Id Values::add(Node node) {
  const auto [entry, is_new] = ids_.try_emplace(std::move(node), static_cast<Id>(nodes_.size()));
  if (is_new) nodes_.push_back(&entry->first);
  return entry->second;
}

Values::Id Values::contribution(int rank) {
  std::vector<uint64_t> contributors(words_, 0);
  contributors[rank / 64] = uint64_t{1} << (rank % 64);
  return add({Kind::kContribution, {static_cast<Id>(rank)}, std::move(contributors)});
}

Values::Id Values::fold(std::span<const Id> operands) {
  if (operands.size() == 1) return operands[0];
  std::vector<uint64_t> contributors(words_, 0);
  for (Id operand : operands)
    for (size_t word = 0; word < words_; ++word)
      contributors[word] |= nodes_[operand]->contributors[word];
  return add({Kind::kFold, {operands.begin(), operands.end()}, std::move(contributors)});
}

Values::Id Values::encoded(Id value) {
  return add({Kind::kEncoded, {value}, nodes_[value]->contributors});
}

Values::Id Values::with_residual(Id value, int rank) {
  return add({Kind::kResidual, {value, static_cast<Id>(rank)}, nodes_[value]->contributors});
}

std::optional<int> Values::double_counted(std::span<const Id> operands) const {
  for (size_t word = 0; word < words_; ++word) {
    uint64_t seen = 0;
    for (Id operand : operands) {
      const uint64_t more = nodes_[operand]->contributors[word];
      if (seen & more) return static_cast<int>(word) * 64 + std::countr_zero(seen & more);
      seen |= more;
    }
  }
  return std::nullopt;
}

bool Values::holds(Id value, int rank) const {
  return nodes_[value]->contributors[rank / 64] >> (rank % 64) & 1;
}

int Values::contributions(Id value) const {
  int count = 0;
  for (uint64_t word : nodes_[value]->contributors) count += std::popcount(word);
  return count;
}

bool Values::rising(std::span<const Id> operands, size_t first) const {
  for (size_t i = first; i < operands.size(); ++i) {
    const Node& node = *nodes_[operands[i]];
    if (node.kind != Kind::kContribution) return false;
    if (i == 0) continue;
    // Above every rank of the operand before, so above its last one.
    for (Id rank = node.operands[0]; rank < words_ * 64; ++rank)
      if (holds(operands[i - 1], static_cast<int>(rank))) return false;
  }
  return true;
}

AdditionOrder Values::order(Id value) const {
  const Node& node = *nodes_[value];
  if (node.kind == Kind::kContribution) return AdditionOrder::kOnePass;
  if (node.kind != Kind::kFold) return AdditionOrder::kOther;
  if (rising(node.operands, 0)) return AdditionOrder::kOnePass;
  if (rising(node.operands, 1) && order(node.operands[0]) != AdditionOrder::kOther)
    return AdditionOrder::kLeftFold;
  return AdditionOrder::kOther;
}

Quantisation Values::quantisation(Id value, double relative_error) const {
  const Node& node = *nodes_[value];
  if (node.kind == Kind::kContribution) return {};
  const auto held = static_cast<uint32_t>(contributions(value));
  if (node.kind != Kind::kFold) {
    Quantisation result = quantisation(node.operands[0], relative_error);
    if (node.kind == Kind::kResidual) return result;
    ++result.most;
    result.held = std::max(result.held, held);
    // The codec sees the true value with the errors so far.
    result.error += relative_error * (held + result.error);
    return result;
  }
  Quantisation result;
  for (Id operand : node.operands) {
    const Quantisation one = quantisation(operand, relative_error);
    result.most = std::max(result.most, one.most);
    result.held = std::max(result.held, one.held);
    result.error += one.error;
  }
  // n − 1 additions in float32, each rounded.
  const double rounded = 0x1p-24 * static_cast<double>(node.operands.size() - 1);
  result.error += rounded / (1 - rounded) * (held + result.error);
  return result;
}

void Values::append_text(Id value, std::string& text) const {
  if (text.size() > 200) return;
  const Node& node = *nodes_[value];
  if (node.kind == Kind::kContribution) {
    text += std::to_string(node.operands[0]);
    return;
  }
  if (node.kind == Kind::kResidual) {
    text += "(";
    append_text(node.operands[0], text);
    text += " + residual of " + std::to_string(node.operands[1]) + ")";
    return;
  }
  text += node.kind == Kind::kEncoded ? "encode(" : "(";
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (i > 0) text += " + ";
    append_text(node.operands[i], text);
  }
  text += ")";
}

std::string Values::text(Id value) const {
  std::string text;
  append_text(value, text);
  if (text.size() > 200) text.replace(200, std::string::npos, "…");
  return text;
}

}  // namespace unisono
