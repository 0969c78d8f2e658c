// SPDX-License-Identifier: Apache-2.0
// Every environment variable that Unisono reads under its own name: one table, typed and checked.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/network.h"
#include "base/status.h"

namespace unisono {

// In the order of the table in settings.cc.
enum class Setting : uint8_t {
  kAlgorithm, kRules, kTransport, kForm, kTimeout, kProgress, kSliceBytes, kDepth, kStagingBytes, kBootstrap,
  kJobToken, kInterface, kPortRange, kLog, kFuseBytes, kBind,
  kCount
};

enum class SettingKind : uint8_t { kText, kInteger, kBytes, kDuration, kOneOf, kHexadecimal, kNetwork, kPorts };

struct SettingRow {
  Setting setting;
  std::string_view name;  // "UNISONO_TIMEOUT"
  SettingKind kind;
  std::string_view default_value;
  std::string_view allowed;  // kOneOf: "a|b|c"; kInteger and kBytes: "min:max"; kHexadecimal: the number of digits
  std::string_view help;     // one line
};

std::string_view type_of(const SettingRow& row);  // for people: "bytes", "duration", "caller|thread"

// A checked set of values; an immutable value once made.
class Settings {
 public:
  static const std::vector<SettingRow>& table();

  // Every value at its default.
  Settings();
  // From an environment ("NAME=value" strings, null-terminated). Errors: an unknown UNISONO_* name (with
  // the nearest known one), a value that does not parse or is out of range (with what was expected).
  static Result<Settings> from_environment(const char* const* environment);
  // The same check for one value; for tests and options structs.
  Status set(std::string_view name, std::string_view value, std::string_view origin);

  const std::string& text(Setting setting) const;
  int64_t integer(Setting setting) const;  // kInteger and kBytes
  std::chrono::nanoseconds duration(Setting setting) const;
  PortRange ports(Setting setting) const;
  std::string_view origin(Setting setting) const;  // "default", "environment", "options"

 private:
  struct Value {
    std::string text;
    int64_t number = 0;  // parsed: integer, bytes, nanoseconds, ports
    std::string origin;
  };
  std::array<Value, static_cast<size_t>(Setting::kCount)> values_;
};

}  // namespace unisono
