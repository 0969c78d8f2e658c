// SPDX-License-Identifier: Apache-2.0
// The flags that bench and compare share, as words and as values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "tools/command.h"
#include "tools/measure.h"

namespace unisono {

// As typed.
struct MeasureFlags {
  std::string ranks = {};
  std::string ranks_as = "processes";
  std::string bytes = {};
  std::string first_bytes = {}, last_bytes = {}, factor = {};  // nccl-tests' way to say it
  std::string algorithm;                        // the command's own default
  std::string codec = {};
  std::string data = {};
  std::string dtype = "f32";
  std::string op = "sum";
  bool in_place = false, mapped = false;
  bool fresh = false, hot = false;
  std::string transport = {};
  std::string iterations = {}, warmup = {};
  std::string check = "1";
  std::string json = {}, csv = {};

  void declare(Flags& flags);
};

// Checked.
struct MeasureOptions {
  std::optional<int> ranks;  // as asked for
  bool as_threads = false;
  bool mapped = false;  // buffers of unisono_alloc
  std::vector<uint64_t> bytes;
  std::vector<DataType> types;
  std::vector<ReduceOp> ops;
  std::vector<Candidate> candidates;
  std::vector<std::string> codecs;  // of --codec; empty: as the candidates say
  bool every_candidate = false;     // "all": those that do not serve a case are left out
  std::shared_ptr<const FloatInputs> data;  // what pattern.data points to
  MeasureCase pattern;           // of all cases: all but type, op and count
  std::string transport;         // empty: as the settings say
  std::string json, csv;

  uint64_t largest_bytes() const;
};

// Errors: kInvalidArgument and kUnsupported, "--flag VALUE: expected …".
Result<MeasureOptions> parse(const MeasureFlags& flags);

// "all", or a comma list of choices; commas in parentheses are theirs.
Result<std::vector<Candidate>> parse_algorithms(std::string_view text);
// Errors like bad_value.
Result<int> parse_count(std::string_view flag, std::string_view text, int least, int most);

}  // namespace unisono
