// SPDX-License-Identifier: Apache-2.0
#include "select/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "codecs/codec.h"

namespace unisono {
namespace {

// Without shared memory a message costs microseconds of CPU at both ends, so few ones win for
// longer. A codec trades work for bytes. It pays on the links between hosts, where they are slower
// than its break-even (src/codecs/README.md), and gains little in one host's memory. fp16 is not
// among these: from 65520 up no bound of its error holds, and nobody knows the values here.
constexpr std::string_view kDefaultRules =
    "shared_memory=1 bytes<=64K: one_shot;"
    "shared_memory=0 ranks<=3 bytes<=2K: one_shot;"
    "shared_memory=0 bytes<=32K: recursive_doubling;"
    "hosts>1 bytes>64K: sharded_ps codec=onebit links=between_hosts;"
    "hosts>1 bytes>64K: sharded_ps codec=int8 links=between_hosts;"
    "*: sharded_ps;"
    "*: naive_ps";

constexpr std::string_view kComparisons[] = {"<=", ">=", "<", "=", ">"};  // longest first

struct FactName {
  std::string_view name;
  uint64_t RuleFacts::*fact;
};
constexpr FactName kFactNames[] = {{"bytes", &RuleFacts::bytes},
                                   {"ranks", &RuleFacts::ranks},
                                   {"hosts", &RuleFacts::hosts},
                                   {"shared_memory", &RuleFacts::shared_memory}};

const Algorithm* find(AlgorithmTable algorithms, std::string_view name) {
  const auto found =
      std::ranges::find(algorithms, name, [](const Algorithm* a) { return a->name; });
  return found == algorithms.end() ? nullptr : *found;
}

}  // namespace

std::string_view Rules::default_text() {
  return kDefaultRules;
}

bool Rules::Condition::holds(const RuleFacts& facts) const {
  const uint64_t value = facts.*fact;
  if (comparison == "<=") return value <= limit;
  if (comparison == ">=") return value >= limit;
  if (comparison == "<") return value < limit;
  if (comparison == ">") return value > limit;
  return value == limit;
}

Result<Rules::Condition> Rules::parse_condition(std::string_view text) {
  for (const std::string_view comparison : kComparisons) {
    const size_t at = text.find(comparison);
    if (at == std::string_view::npos) continue;
    const auto limit = parse_bytes(text.substr(at + comparison.size()));
    const auto name = std::ranges::find(kFactNames, text.substr(0, at), &FactName::name);
    if (!limit || name == std::end(kFactNames)) break;
    return Condition{name->fact, comparison, *limit};
  }
  return invalid_argument(fmt::format(
      "rule condition '{}': expected bytes, ranks, hosts or shared_memory, then <, <=, =, >= or >, "
      "then a number, e.g. bytes<=8K",
      text));
}

Result<Rules> Rules::parse(std::string_view text, AlgorithmTable algorithms) {
  Rules rules;
  std::string lines(text);
  std::ranges::replace(lines, '\n', ';');
  for (std::string_view line : split(lines, ';')) {
    line = trim(line);
    if (line.empty()) continue;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos)
      return invalid_argument(
          fmt::format("rule '{}': expected CONDITIONS: CHOICE, e.g. bytes<=8K: one_shot", line));
    Rule rule;
    rule.text = line;
    const std::string_view conditions = trim(line.substr(0, colon));
    if (conditions != "*") {
      for (const std::string_view word : split(conditions, ' ')) {
        if (word.empty()) continue;
        Result<Condition> condition = parse_condition(word);
        if (!condition.ok()) return condition.status();
        rule.conditions.push_back(*condition);
      }
      if (rule.conditions.empty())
        return invalid_argument(
            fmt::format("rule '{}': expected conditions, or * for always", line));
    }
    Result<Choice> choice = parse_choice(trim(line.substr(colon + 1)), algorithms);
    if (!choice.ok()) return choice.status().in(fmt::format("rule '{}'", line));
    rule.choice = choice.take();
    const auto codec = find_codec(rule.choice.codec);
    if (!codec.ok()) return codec.status().in(fmt::format("rule '{}'", line));
    rule.codec = *codec;
    rule.algorithm = find(algorithms, rule.choice.algorithm);
    rules.rules_.push_back(std::move(rule));
  }
  if (rules.rules_.empty() || !rules.rules_.back().conditions.empty())
    return invalid_argument("rules: the last one must hold always, e.g. *: ring");
  return rules;
}

Result<Rules::Match> Rules::select(const RuleFacts& facts, const Shape& shape,
                                   const CodecLimits& limits, Quantisations& known) const {
  Status reason;
  for (const Rule& rule : rules_) {
    if (!std::ranges::all_of(rule.conditions, [&](const Condition& c) { return c.holds(facts); }))
      continue;
    Shape candidate = shape;
    candidate.parameters = rule.choice.parameters;
    reason = rule.algorithm->supports(candidate);
    if (reason.ok())
      reason = check_codec(*rule.algorithm, candidate, limits.codec.value_or(rule.codec),
                           rule.choice.links, limits, known);
    if (!reason.ok()) continue;
    Match match{rule.choice, rule.text};
    if (limits.codec) match.choice.codec = name_of(*limits.codec);
    return match;
  }
  return reason.in("no rule serves this communicator; the last one");
}

}  // namespace unisono
