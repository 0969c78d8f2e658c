// SPDX-License-Identifier: Apache-2.0
// The table of settings and the one place where their values are parsed.
#include "base/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "base/text.h"

namespace unisono {
namespace {

constexpr std::string_view kPrefix = "UNISONO_";

const std::vector<SettingRow> kTable = {
    {Setting::kAlgorithm, "UNISONO_ALGORITHM", SettingKind::kText, "auto", "",
     "what runs every call, e.g. 'ring depth=4'; auto: the runtime picks by size and topology"},
    {Setting::kRules, "UNISONO_RULES", SettingKind::kText, "", "",
     "rules for auto, the first that holds wins, e.g. 'bytes<=8K shared_memory=1: one_shot; *: ring' (facts: bytes, "
     "ranks, hosts, shared_memory); empty: the built-in rules"},
    {Setting::kTransport, "UNISONO_TRANSPORT", SettingKind::kText, "auto", "",
     "transport for every peer, by name; auto: the best one that reaches the peer"},
    {Setting::kForm, "UNISONO_FORM", SettingKind::kOneOf, "direct", "direct|staged|schedule",
     "direct: hand-written forms where all ranks share memory; staged: those that copy through memory of their own, "
     "also where buffers are mapped; schedule: none"},
    {Setting::kTimeout, "UNISONO_TIMEOUT", SettingKind::kDuration, "300s", "",
     "how long a call or the creation of a communicator may wait before it fails"},
    {Setting::kProgress, "UNISONO_PROGRESS", SettingKind::kOneOf, "caller", "caller|thread",
     "who moves started calls on: the caller in test and wait, or a thread of the communicator"},
    {Setting::kSliceBytes, "UNISONO_SLICE_BYTES", SettingKind::kBytes, "64K", "256:1G",
     "longest piece of a chunk that moves as one message"},
    {Setting::kDepth, "UNISONO_DEPTH", SettingKind::kInteger, "4", "1:64",
     "slices of a call in flight at once"},
    {Setting::kStagingBytes, "UNISONO_STAGING_BYTES", SettingKind::kBytes, "8M", "64K:64G",
     "shared memory that each rank offers to the others of its host"},
    {Setting::kBootstrap, "UNISONO_BOOTSTRAP", SettingKind::kOneOf, "auto", "auto|local|tcp",
     "how processes find each other: local (one host, no network) or tcp"},
    {Setting::kJobToken, "UNISONO_JOB_TOKEN", SettingKind::kHexadecimal, "", "32",
     "32 hexadecimal digits that all ranks of a job share; made by the launcher"},
    {Setting::kInterface, "UNISONO_INTERFACE", SettingKind::kNetwork, "", "",
     "network interface, subnet or address to use, e.g. 'eth0' or '10.1.0.0/16'; empty: all"},
    {Setting::kPortRange, "UNISONO_PORT_RANGE", SettingKind::kPorts, "", "",
     "TCP ports that may be listened on, e.g. '20000:20100'; empty: any free one"},
    {Setting::kLog, "UNISONO_LOG", SettingKind::kOneOf, "warn", "error|warn|info|debug",
     "what is written to standard error"},
    {Setting::kFuseBytes, "UNISONO_FUSE_BYTES", SettingKind::kBytes, "64K", "0:1G",
     "buffers of a group up to this size are packed together; 0: nothing is packed"},
    {Setting::kBind, "UNISONO_BIND", SettingKind::kOneOf, "none", "none|core",
     "core: the thread that creates a communicator runs on a core of its own from then on, where no launcher has bound "
     "the host's ranks and there are enough cores"},
};

[[maybe_unused]] const SettingRow& row_of(Setting setting) {
  const SettingRow& row = kTable[static_cast<size_t>(setting)];
  assert(row.setting == setting && "the table follows the order of the enumeration");
  return row;
}

const SettingRow* find_row(std::string_view name) {
  for (const SettingRow& row : kTable)
    if (row.name == name) return &row;
  return nullptr;
}

Status unknown_name(std::string_view name) {
  std::vector<std::string_view> known;
  for (const SettingRow& row : kTable) known.push_back(row.name);
  const std::string_view nearest = nearest_name(name, known);
  return invalid_argument(nearest.empty()
                              ? fmt::format("unknown setting {}: see `unisono settings`", name)
                              : fmt::format("unknown setting {}: did you mean {}?", name, nearest));
}

Status expected(const SettingRow& row, std::string_view value, std::string_view what) {
  return invalid_argument(fmt::format("{}={}: expected {}", row.name, value, what));
}

// The number behind a value, or what was expected instead.
Result<int64_t> parse_value(const SettingRow& row, std::string_view value) {
  switch (row.kind) {
    case SettingKind::kText:
      return int64_t{0};
    case SettingKind::kOneOf: {
      const auto words = split(row.allowed, '|');
      if (std::ranges::find(words, value) == words.end())
        return expected(row, value, fmt::format("one of {}", row.allowed));
      return int64_t{0};
    }
    case SettingKind::kDuration: {
      const auto duration = parse_duration(value);
      if (!duration) return expected(row, value, "a duration like 30s, 5m or 250ms");
      return duration->count();
    }
    case SettingKind::kInteger:
    case SettingKind::kBytes: {
      const bool is_bytes = row.kind == SettingKind::kBytes;
      const auto read = [&](std::string_view text) -> std::optional<int64_t> {
        if (!is_bytes) return parse_integer(text);
        const auto bytes = parse_bytes(text);
        if (!bytes || *bytes > INT64_MAX) return std::nullopt;
        return static_cast<int64_t>(*bytes);
      };
      const auto number = read(value);
      const auto limits = split(row.allowed, ':');
      if (!number || *number < *read(limits[0]) || *number > *read(limits[1]))
        return expected(row, value,
                        fmt::format("{} from {} to {}", is_bytes ? "a size like 64K" : "a number",
                                    limits[0], limits[1]));
      return *number;
    }
    case SettingKind::kHexadecimal: {
      const auto digits = parse_integer(row.allowed);
      // Not the value: it may be a secret.
      if (!value.empty() && (std::ssize(value) != *digits || !parse_hexadecimal(value)))
        return invalid_argument(fmt::format("{}: expected {} hexadecimal digits, got {} characters", row.name, *digits,
                                            value.size()));
      return int64_t{0};
    }
    case SettingKind::kNetwork:
      if (value.find('/') != std::string_view::npos && !parse_subnet(value))
        return expected(row, value, "a name, an address, or a subnet like 10.1.0.0/16");
      return int64_t{0};
    case SettingKind::kPorts: {
      const auto ports = parse_ports(value);
      if (!ports) return expected(row, value, "ports like 20000:20100");
      return int64_t{ports->last} << 16 | ports->first;
    }
  }
  return int64_t{0};
}

}  // namespace

std::string_view type_of(const SettingRow& row) {
  switch (row.kind) {
    case SettingKind::kText: return "text";
    case SettingKind::kInteger: return "number";
    case SettingKind::kBytes: return "bytes";
    case SettingKind::kDuration: return "duration";
    case SettingKind::kOneOf: return row.allowed;
    case SettingKind::kHexadecimal: return "hexadecimal";
    case SettingKind::kNetwork: return "interface";
    case SettingKind::kPorts: return "ports";
  }
  return "";
}

const std::vector<SettingRow>& Settings::table() { return kTable; }

Settings::Settings() {
  for (const SettingRow& row : kTable) {
    const Result<int64_t> number = parse_value(row, row.default_value);
    assert(number.ok());
    values_[static_cast<size_t>(row.setting)] = {std::string(row.default_value), *number, "default"};
  }
}

Status Settings::set(std::string_view name, std::string_view value, std::string_view origin) {
  const SettingRow* row = find_row(name);
  if (row == nullptr) return unknown_name(name);
  const Result<int64_t> number = parse_value(*row, value);
  if (!number.ok()) return number.status();
  values_[static_cast<size_t>(row->setting)] = {std::string(value), *number, std::string(origin)};
  return Status();
}

Result<Settings> Settings::from_environment(const char* const* environment) {
  Settings settings;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const size_t equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    UNISONO_RETURN_IF_ERROR(
        settings.set(entry.substr(0, equals), entry.substr(equals + 1), "environment"));
  }
  return settings;
}

const std::string& Settings::text(Setting setting) const {
  return values_[static_cast<size_t>(setting)].text;
}

int64_t Settings::integer(Setting setting) const {
  assert(row_of(setting).kind == SettingKind::kInteger || row_of(setting).kind == SettingKind::kBytes);
  return values_[static_cast<size_t>(setting)].number;
}

std::chrono::nanoseconds Settings::duration(Setting setting) const {
  assert(row_of(setting).kind == SettingKind::kDuration);
  return std::chrono::nanoseconds(values_[static_cast<size_t>(setting)].number);
}

PortRange Settings::ports(Setting setting) const {
  assert(row_of(setting).kind == SettingKind::kPorts);
  const int64_t number = values_[static_cast<size_t>(setting)].number;
  return {static_cast<uint16_t>(number), static_cast<uint16_t>(number >> 16)};
}

std::string_view Settings::origin(Setting setting) const {
  return values_[static_cast<size_t>(setting)].origin;
}

}  // namespace unisono
