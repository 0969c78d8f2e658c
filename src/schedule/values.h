// SPDX-License-Identifier: Apache-2.0
// Values: expressions over the ranks' contributions, each kept once, so that equal is same id.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schedule/verify.h"

namespace unisono {

class Values {
 public:
  using Id = uint32_t;
  static constexpr Id kNone = UINT32_MAX;

  enum class Kind : uint8_t { kContribution, kFold, kEncoded, kResidual };
  struct Node {
    Kind kind;
    std::vector<Id> operands;            // kContribution: the rank; kResidual: the value, the rank
    std::vector<uint64_t> contributors;  // bit set
    auto operator<=>(const Node&) const = default;
  };

  explicit Values(int ranks) : words_((static_cast<size_t>(ranks) + 63) / 64) {}

  Id contribution(int rank);
  // The fold of `operands` in this order; of one operand: itself. Precondition: !double_counted.
  Id fold(std::span<const Id> operands);
  // What is left of a value after it has been through the codec.
  Id encoded(Id value);
  // A value plus what this rank alone keeps in a residual.
  Id with_residual(Id value, int rank);

  // A rank whose contribution more than one operand holds.
  std::optional<int> double_counted(std::span<const Id> operands) const;
  const Node& node(Id value) const { return *nodes_[value]; }
  bool holds(Id value, int rank) const;
  int contributions(Id value) const;

  AdditionOrder order(Id value) const;
  Quantisation quantisation(Id value, double relative_error) const;
  // "(0 + (1 + 2))", cut short after some 200 characters.
  std::string text(Id value) const;

 private:
  Id add(Node node);
  void append_text(Id value, std::string& text) const;
  // Whether `operands` from `first` on are contributions in rank order.
  bool rising(std::span<const Id> operands, size_t first) const;

  size_t words_;
  std::vector<const Node*> nodes_;  // keys of ids_
  std::map<Node, Id> ids_;
};

}  // namespace unisono
