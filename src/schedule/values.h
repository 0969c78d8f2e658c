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

  explicit Values(int ranks) : words_((static_cast<size_t>(ranks) + 63) / 64) {}

  Id contribution(int rank);
  // The fold of `operands` in this order; of one operand: itself. Precondition: !double_counted.
  Id fold(std::span<const Id> operands);
  // What is left of a value after it has been through the codec.
  Id encoded(Id value);

  // A rank whose contribution more than one operand holds.
  std::optional<int> double_counted(std::span<const Id> operands) const;
  bool holds(Id value, int rank) const;
  int contributions(Id value) const;

  AdditionOrder order(Id value) const;
  // "(0 + (1 + 2))", cut short after some 200 characters.
  std::string text(Id value) const;

 private:
  enum class Kind : uint8_t { kContribution, kFold, kEncoded };
  struct Node {
    Kind kind;
    std::vector<Id> operands;            // kContribution: the rank
    std::vector<uint64_t> contributors;  // bit set
    auto operator<=>(const Node&) const = default;
  };

  Id add(Node node);
  void append_text(Id value, std::string& text) const;
  // Whether `operands` from `first` on are contributions in rank order.
  bool rising(std::span<const Id> operands, size_t first) const;

  size_t words_;
  std::vector<const Node*> nodes_;  // keys of ids_
  std::map<Node, Id> ids_;
};

}  // namespace unisono
