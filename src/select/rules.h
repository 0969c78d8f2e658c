// SPDX-License-Identifier: Apache-2.0
// Rules: the text that says which choice runs a call, by message size and ranks. Defaults are
// written in it, and so are a user's.
//
//   bytes<=8K shared_memory=1: one_shot; bytes<=1M ranks<=8: sharded_ps; *: ring depth=8
//
// Rules stand in order, separated by ';' or a new line; the first one whose conditions all hold and
// whose algorithm supports the shape, and whose codec the call allows, wins. Conditions: bytes,
// ranks, hosts or shared_memory (1 where all ranks reach each other through it, else 0); <, <=, =,
// >=, >; a number (with K, M, G). `*` always holds. docs/RULES.md is for users.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "schedule/algorithm.h"
#include "select/codec_limits.h"

namespace unisono {

struct RuleFacts {
  uint64_t bytes;
  uint64_t ranks;
  uint64_t hosts;
  uint64_t shared_memory;
};

class Rules {
 public:
  static std::string_view default_text();
  static Result<Rules> parse(std::string_view text, AlgorithmTable algorithms);

  struct Match {
    Choice choice;
    std::string rule;  // its text
  };
  // kUnsupported if no rule serves. `shape`'s parameters are set from each candidate.
  Result<Match> select(const RuleFacts& facts, const Shape& shape, const CodecLimits& limits,
                       Quantisations& known) const;

 private:
  struct Condition {
    uint64_t RuleFacts::*fact;
    std::string_view comparison;  // of a literal
    uint64_t limit;
    bool holds(const RuleFacts& facts) const;
  };
  struct Rule {
    std::vector<Condition> conditions;
    Choice choice;
    const Algorithm* algorithm;
    const Codec* codec;
    std::string text;
  };
  static Result<Condition> parse_condition(std::string_view text);

  std::vector<Rule> rules_;
};

}  // namespace unisono
