// SPDX-License-Identifier: Apache-2.0
// The text form of a Choice: `sharded_ps(window=2) codec=fp16 links=between_hosts depth=4`.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "schedule/algorithm.h"

namespace unisono {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::string_view kKeys[] = {"codec", "depth", "links"};

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// "unknown algorithm rng: did you mean ring?", or a list of what there is.
Status unknown(std::string_view what, std::string_view name,
               std::span<const std::string_view> known) {
  if (known.empty())
    return invalid_argument(fmt::format("unknown {} {}: it takes none", what, name));
  const std::string_view nearest = nearest_name(name, known);
  if (!nearest.empty())
    return invalid_argument(fmt::format("unknown {} {}: did you mean {}?", what, name, nearest));
  return invalid_argument(
      fmt::format("unknown {} {}: expected one of {}", what, name, fmt::join(known, ", ")));
}

const Algorithm* find(std::string_view name, AlgorithmTable algorithms) {
  const auto row = std::ranges::find(algorithms, name, &Algorithm::name);
  return row == algorithms.end() ? nullptr : *row;
}

Result<int> integer_between(std::string_view name, std::string_view text, int min, int max) {
  const auto number = parse_integer(text);
  if (!number || *number < min || *number > max)
    return invalid_argument(
        fmt::format("{}={}: expected a number from {} to {}", name, text, min, max));
  return static_cast<int>(*number);
}

// Cuts "key=value" in two.
Result<std::pair<std::string_view, std::string_view>> key_and_value(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    return invalid_argument(fmt::format("'{}': expected name=value", text));
  return std::pair(trim(text.substr(0, equals)), trim(text.substr(equals + 1)));
}

// The inside of the parentheses: "window=2, outer=ring".
Result<Parameters> parse_parameters(std::string_view text) {
  Parameters parameters;
  if (trim(text).empty()) return parameters;
  for (std::string_view part : split(text, ',')) {
    const auto pair = key_and_value(trim(part));
    if (!pair.ok()) return pair.status();
    const auto& [name, value] = *pair;
    if (parameters.has(name)) return invalid_argument(fmt::format("{} is given twice", name));
    parameters.set(name, value);
  }
  return parameters;
}

// One of the words after the algorithm.
Status parse_key(std::string_view word, std::vector<std::string_view>& seen, Choice& choice) {
  const auto pair = key_and_value(word);
  if (!pair.ok()) return pair.status();
  const auto& [key, value] = *pair;
  if (std::ranges::count(seen, key) > 0)
    return invalid_argument(fmt::format("{} is given twice", key));
  seen.push_back(key);
  if (key == "codec") {
    if (!is_name(value)) return invalid_argument(fmt::format("codec={}: expected a name", value));
    choice.codec = value;
    return Status();
  }
  if (key == "depth") {
    const Result<int> depth = integer_between(key, value, 0, kMaxDepth);
    if (!depth.ok()) return depth.status();
    choice.depth = *depth;
    return Status();
  }
  if (key == "links") {
    if (value != "all" && value != "between_hosts")
      return invalid_argument(fmt::format("links={}: expected all or between_hosts", value));
    choice.links = value == "all" ? CodecLinks::kAll : CodecLinks::kBetweenHosts;
    return Status();
  }
  return unknown("key", key, kKeys);
}

}  // namespace

Result<Parameters> resolve_parameters(const Algorithm& algorithm, const Parameters& given) {
  std::vector<std::string_view> known;
  for (const ParameterSpec& spec : algorithm.parameters) known.push_back(spec.name);
  for (const auto& [name, value] : given.entries())
    if (std::ranges::count(known, name) == 0)
      return unknown(fmt::format("parameter of {}", algorithm.name), name, known);

  Parameters resolved;
  for (const ParameterSpec& spec : algorithm.parameters) {
    const std::string_view value =
        given.has(spec.name) ? given.text(spec.name) : spec.default_value;
    const Result<int> number = integer_between(spec.name, value, spec.min, spec.max);
    if (!number.ok()) return number.status().in(algorithm.name);
    resolved.set(spec.name, std::to_string(*number));
  }
  return resolved;
}

Result<Choice> parse_choice(std::string_view text, AlgorithmTable algorithms) {
  text = trim(text);
  const std::string_view name = trim(text.substr(0, text.find_first_of(" \t\r\n(")));
  std::string_view rest = trim(text.substr(name.size()));
  const Algorithm* algorithm = find(name, algorithms);
  if (algorithm == nullptr) {
    std::vector<std::string_view> known;
    for (const Algorithm* row : algorithms) known.push_back(row->name);
    return unknown("algorithm", name.empty() ? "''" : name, known);
  }

  Choice choice{.algorithm = std::string(name), .parameters = {}};
  Parameters given;
  if (rest.starts_with('(')) {
    const size_t close = rest.find(')');
    if (close == std::string_view::npos)
      return invalid_argument(fmt::format("'{}': expected a closing )", text));
    auto parameters = parse_parameters(rest.substr(1, close - 1));
    if (!parameters.ok()) return parameters.status();
    given = parameters.take();
    rest = trim(rest.substr(close + 1));
  }
  auto resolved = resolve_parameters(*algorithm, given);
  if (!resolved.ok()) return resolved.status();
  choice.parameters = resolved.take();

  std::vector<std::string_view> seen;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find_first_of(" \t\r\n"));
    UNISONO_RETURN_IF_ERROR(parse_key(word, seen, choice));
    rest = trim(rest.substr(word.size()));
  }
  return choice;
}

std::string to_string(const Choice& choice, AlgorithmTable algorithms) {
  const Algorithm* algorithm = find(choice.algorithm, algorithms);
  const auto is_default = [&](const std::pair<std::string, std::string>& entry) {
    return algorithm != nullptr &&
           std::ranges::any_of(algorithm->parameters, [&](const ParameterSpec& spec) {
             return spec.name == entry.first && spec.default_value == entry.second;
           });
  };
  std::string given;
  for (const auto& entry : choice.parameters.entries())
    if (!is_default(entry))
      given += fmt::format("{}{}={}", given.empty() ? "" : ",", entry.first, entry.second);

  std::string text = choice.algorithm;
  if (!given.empty()) text += "(" + given + ")";
  if (choice.codec != "none") text += " codec=" + choice.codec;
  if (choice.links == CodecLinks::kBetweenHosts) text += " links=between_hosts";
  if (choice.depth != 0) text += fmt::format(" depth={}", choice.depth);
  return text;
}

}  // namespace unisono
