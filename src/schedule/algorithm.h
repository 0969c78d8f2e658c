// SPDX-License-Identifier: Apache-2.0
// Algorithm: a row of the algorithm table; Choice: an algorithm with parameters, codec and depth.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "direct/direct.h"
#include "schedule/schedule.h"
#include "schedule/shape.h"

namespace unisono {

inline constexpr std::span<const DirectForm* const> kNoForms;

struct ParameterSpec {
  std::string_view name;
  std::string_view default_value;
  int min, max;  // integer range
  std::string_view help;
};

// A row of the table in algorithms/registry.cc, defined at the end of the algorithm's own file.
// Stateless; both functions are pure.
struct Algorithm {
  std::string_view name;
  std::string_view summary;  // one line
  Collective collective;
  std::span<const ParameterSpec> parameters;
  Status (*supports)(const Shape& shape);  // kUnsupported with the reason, or ok
  Schedule (*build)(const Shape& shape);   // precondition: supports(shape).ok()
  // Forms over mapped memory, the first one that serves wins. `build` with default parameters is their
  // proof: they give the same bits.
  const std::span<const DirectForm* const>& forms = kNoForms;
};

using AlgorithmTable = std::span<const Algorithm* const>;

// Which messages a codec is for. Results are encoded on all links, so that all ranks get equal
// bits.
enum class CodecLinks : uint8_t { kAll, kBetweenHosts };

// What runs a call. Text form: `sharded_ps(window=2) codec=fp16 links=between_hosts depth=4`;
// parameters at their default, codec=none, links=all and depth=0 are left out when printed.
struct Choice {
  std::string algorithm;
  Parameters parameters = {};
  std::string codec = "none";
  int depth = 0;  // slices in flight; 0: the executor's default
  CodecLinks links = CodecLinks::kAll;

  bool operator==(const Choice&) const = default;
};

// Parses the text form; parameters come back resolved. Errors: an unknown algorithm, parameter or
// key (with the nearest known name), something given twice, a value out of range. `algorithms` is
// the table to look names up in; whether the codec exists is for the codec table to say.
// parse_choice(to_string(x)) == x for every x that parse_choice returned.
Result<Choice> parse_choice(std::string_view text, AlgorithmTable algorithms);
std::string to_string(const Choice& choice, AlgorithmTable algorithms);

// Every parameter that the row declares, in its order: as given, else the default. What
// Shape::parameters must hold. Errors as parse_choice.
Result<Parameters> resolve_parameters(const Algorithm& algorithm, const Parameters& given);

}  // namespace unisono
