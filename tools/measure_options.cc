// SPDX-License-Identifier: Apache-2.0
#include "tools/measure_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "algorithms/registry.h"
#include "base/text.h"
#include "codecs/codec.h"
#include "tools/sweep.h"
#include "transports/registry.h"

namespace unisono {
namespace {

constexpr std::string_view kDefaultBytes = "8:64M:x4";
constexpr int kMostRanks = 1024, kMostCalls = 100000;

// The names that nccl-tests uses beside ours.
constexpr std::pair<std::string_view, DataType> kNcclTypes[] = {
    {"int8", DataType::kInt8},     {"uint8", DataType::kUint8},
    {"int32", DataType::kInt32},   {"uint32", DataType::kUint32},
    {"int64", DataType::kInt64},   {"uint64", DataType::kUint64},
    {"half", DataType::kFloat16},  {"bfloat16", DataType::kBfloat16},
    {"float", DataType::kFloat32}, {"double", DataType::kFloat64},
};

std::optional<DataType> parse_any_data_type(std::string_view name) {
  for (const auto& [alias, type] : kNcclTypes)
    if (alias == name) return type;
  return parse_data_type(name);
}

template <typename Values>
std::string names_of(const Values& values) {
  std::vector<std::string_view> names;
  for (const auto value : values) names.push_back(name_of(value));
  return fmt::format("{}", fmt::join(names, "|"));
}

// A comma list of names, or "all".
template <typename T>
Result<std::vector<T>> parse_names(std::string_view flag, std::string_view text,
                                   std::span<const T> all,
                                   std::optional<T> (*parse_name)(std::string_view)) {
  if (text == "all") return std::vector<T>(all.begin(), all.end());
  std::vector<T> values;
  for (std::string_view name : split(text, ',')) {
    const std::optional<T> value = parse_name(trim(name));
    if (!value) return bad_value(flag, text, names_of(all) + " or all");
    values.push_back(*value);
  }
  return values;
}

Result<std::vector<uint64_t>> parse_sizes(const MeasureFlags& flags) {
  std::string_view flag = "--bytes";
  std::string text = flags.bytes;
  if (!flags.first_bytes.empty() || !flags.last_bytes.empty() || !flags.factor.empty()) {
    if (!text.empty())
      return invalid_argument("--bytes and -b, -e, -f say the same: expected only one of them");
    if (flags.first_bytes.empty() || (flags.last_bytes.empty() && !flags.factor.empty()))
      return invalid_argument(
          "-b, -e, -f: expected -b FIRST, -b FIRST -e LAST, or both and -f FACTOR");
    flag = "-b -e -f";
    text = flags.first_bytes;
    if (!flags.last_bytes.empty()) text += ":" + flags.last_bytes;
    if (!flags.factor.empty()) text += ":x" + flags.factor;
  }
  auto sizes = parse_byte_sweep(text.empty() ? kDefaultBytes : text);
  if (!sizes.ok()) return bad_value(flag, sizes.status());
  return sizes;
}

Status check_multiples(const MeasureOptions& options) {
  for (const uint64_t bytes : options.bytes) {
    for (const DataType type : options.types) {
      if (bytes % size_of(type) == 0) continue;
      return invalid_argument(
          fmt::format("--bytes {}: expected a multiple of {}, the bytes of one {}", bytes,
                      size_of(type), name_of(type)));
    }
  }
  return Status();
}

Status check_transport(const std::string& name) {
  if (name.empty() || name == "auto" || find_transport(name) != nullptr) return Status();
  std::vector<std::string_view> names;
  for (const TransportRow& row : transports()) names.push_back(row.name);
  return bad_value("--transport", name, fmt::format("{}", fmt::join(names, "|")) + " or auto");
}

std::string codec_names() {
  std::vector<std::string_view> names{"none"};
  for (const Codec* codec : codec_table()) names.push_back(codec->name);
  return fmt::format("{}", fmt::join(names, "|"));
}

// Every candidate with every codec of the list.
Status add_codecs(const std::string& text, MeasureOptions& options) {
  if (text.empty()) return Status();
  const std::string names = codec_names();
  for (std::string_view name : split(text == "all" ? names : text, text == "all" ? '|' : ',')) {
    name = trim(name);
    if (!find_codec(name).ok()) return bad_value("--codec", text, names + ", a list, or all");
    options.codecs.emplace_back(name);
  }
  std::vector<Candidate> all;
  for (const std::string& codec : options.codecs) {
    for (Candidate candidate : options.candidates) {
      if (!candidate.choice && codec != "none")
        return bad_value("--codec", text,
                         "an algorithm by name too, e.g. --algorithm ring (auto picks its codec itself)");
      if (candidate.choice) {
        candidate.choice->codec = codec;
        candidate.label = to_string(*candidate.choice, algorithms());
      }
      all.push_back(std::move(candidate));
    }
  }
  options.candidates = std::move(all);
  options.pattern.gradients = true;
  return Status();
}

Status load_data(const std::string& path, MeasureOptions& options) {
  if (path.empty()) return Status();
  for (const DataType type : options.types)
    if (type != DataType::kFloat32)
      return invalid_argument(
          fmt::format("--data: it is f32, expected --dtype f32, not {}", name_of(type)));
  if (std::ranges::count(options.ops, ReduceOp::kProd) > 0)
    return invalid_argument("--data: the error of a prod has no bound, expected another --op");
  auto data = FloatInputs::load(path);
  if (!data.ok()) return data.status().in("--data");
  options.data = std::make_shared<const FloatInputs>(data.take());
  options.pattern.data = options.data.get();
  return Status();
}

}  // namespace

Result<int> parse_count(std::string_view flag, std::string_view text, int least, int most) {
  const auto number = parse_integer(text);
  if (!number || *number < least || *number > most)
    return bad_value(flag, text, fmt::format("a number from {} to {}", least, most));
  return static_cast<int>(*number);
}

Result<std::vector<Candidate>> parse_algorithms(std::string_view text) {
  std::vector<Candidate> candidates;
  if (text == "all") {
    for (const Algorithm* algorithm : algorithms()) {
      auto choice = parse_choice(algorithm->name, algorithms());
      candidates.push_back({std::string(algorithm->name), choice.take()});
    }
    return candidates;
  }
  int depth = 0;
  std::string word;
  const auto end_word = [&]() -> Status {
    const std::string name(trim(std::exchange(word, {})));
    if (name == "auto") {
      candidates.push_back({name, std::nullopt});
      return Status();
    }
    auto choice = parse_choice(name, algorithms());
    if (!choice.ok()) return choice.status().in("--algorithm");
    const std::string label = to_string(*choice, algorithms());
    candidates.push_back({label, choice.take()});
    return Status();
  };
  for (const char c : text) {
    depth += (c == '(') - (c == ')');
    if (c == ',' && depth == 0) {
      UNISONO_RETURN_IF_ERROR(end_word());
    } else {
      word += c;
    }
  }
  UNISONO_RETURN_IF_ERROR(end_word());
  return candidates;
}

uint64_t MeasureOptions::largest_bytes() const {
  return *std::ranges::max_element(bytes);
}

void MeasureFlags::declare(Flags& flags) {
  flags.text("-n,--ranks", ranks, "N",
             "ranks to start on this host (2); under a launcher, what it started");
  flags.text("--ranks-as", ranks_as, "HOW", "processes, or threads of one process");
  flags.text("--bytes", bytes, "SWEEP",
             fmt::format("sizes of the vector: FIRST:LAST:xFACTOR, FIRST:LAST:+STEP or a list ({})",
                         kDefaultBytes));
  flags.text("-b", first_bytes, "FIRST", "nccl-tests' way to say --bytes, with -e and -f");
  flags.text("-e", last_bytes, "LAST", "last size");
  flags.text("-f", factor, "FACTOR", "factor between sizes (2)");
  flags.text(
      "--algorithm", algorithm, "LIST",
      "all, auto (what the runtime picks), or a list as 'ring,sharded_ps(window=2) depth=8'");
  flags.text("--codec", codec, "LIST",
             fmt::format("wire formats of the payload for each algorithm: {}, a list, or all",
                         codec_names()));
  flags.text(
      "--data", data, "FILE",
      "float32 vectors in place of generated ones: .npy of shape (ranks, n) or (n,), repeated");
  flags.text("-d,--dtype", dtype, "LIST",
             names_of(kDataTypes) + ", nccl-tests' names, a list, or all");
  flags.text("-o,--op", op, "LIST", names_of(kReduceOps) + ", a list, or all");
  flags.toggle("--in-place", in_place, "reduce into the input");
  flags.toggle("--mapped", mapped, "buffers of unisono_alloc, which all ranks of a host map");
  flags.toggle("--fresh", fresh,
               "rewrite the input before every call, as a training step does (default)");
  flags.toggle("--hot", hot, "leave inputs alone: flatters where they fit in a cache");
  flags.text("--transport", transport, "NAME", "sets UNISONO_TRANSPORT");
  flags.text("--iterations", iterations, "N",
             "samples for each size and algorithm; else as many as 0.1 s allows");
  flags.text("-w,--warmup", warmup, "N", "untimed calls before them; else as many as 20 ms allow");
  flags.text("-c,--check", check, "0|1",
             "check results on every rank, and that all ranks hold equal bits");
  flags.text("--json", json, "FILE",
             "write one object a line; - for standard output, without the table");
  flags.text("--csv", csv, "FILE", "write comma-separated values; - as for --json");
}

Result<MeasureOptions> parse(const MeasureFlags& flags) {
  MeasureOptions options;
  if (!flags.ranks.empty()) {
    const auto ranks = parse_count("--ranks", flags.ranks, 1, kMostRanks);
    if (!ranks.ok()) return ranks.status();
    options.ranks = *ranks;
  }
  if (flags.ranks_as != "processes" && flags.ranks_as != "threads")
    return bad_value("--ranks-as", flags.ranks_as, "processes or threads");
  options.as_threads = flags.ranks_as == "threads";
  auto bytes = parse_sizes(flags);
  if (!bytes.ok()) return bytes.status();
  options.bytes = bytes.take();
  auto types = parse_names<DataType>("--dtype", flags.dtype, kDataTypes, parse_any_data_type);
  if (!types.ok()) return types.status();
  options.types = types.take();
  auto ops = parse_names<ReduceOp>("--op", flags.op, kReduceOps, parse_reduce_op);
  if (!ops.ok()) return ops.status();
  options.ops = ops.take();
  UNISONO_RETURN_IF_ERROR(check_multiples(options));
  auto candidates = parse_algorithms(flags.algorithm);
  if (!candidates.ok()) return candidates.status();
  options.candidates = candidates.take();
  options.every_candidate = flags.algorithm == "all" || flags.codec == "all";
  UNISONO_RETURN_IF_ERROR(add_codecs(flags.codec, options));
  UNISONO_RETURN_IF_ERROR(load_data(flags.data, options));
  UNISONO_RETURN_IF_ERROR(check_transport(flags.transport));
  options.transport = flags.transport;

  if (flags.fresh && flags.hot)
    return invalid_argument("--fresh and --hot exclude each other: expected one of them");
  options.pattern.fresh = !flags.hot;
  options.pattern.in_place = flags.in_place;
  options.mapped = flags.mapped;
  if (flags.check != "0" && flags.check != "1") return bad_value("--check", flags.check, "0 or 1");
  options.pattern.check = flags.check == "1";
  if (!flags.iterations.empty()) {
    const auto iterations = parse_count("--iterations", flags.iterations, 1, kMostCalls);
    if (!iterations.ok()) return iterations.status();
    options.pattern.iterations = *iterations;
  }
  if (!flags.warmup.empty()) {
    const auto warmup = parse_count("--warmup", flags.warmup, 0, kMostCalls);
    if (!warmup.ok()) return warmup.status();
    options.pattern.warmup = *warmup;
  }
  if (flags.json == "-" && flags.csv == "-")
    return invalid_argument("--json - and --csv -: expected only one of them on standard output");
  options.json = flags.json;
  options.csv = flags.csv;
  return options;
}

}  // namespace unisono
