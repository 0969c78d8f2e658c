// SPDX-License-Identifier: Apache-2.0
// The small languages of users: sizes, durations, names, settings.
#include "base/text.h"

#include <gtest/gtest.h>

#include "base/settings.h"

namespace unisono {
namespace {

TEST(Text, BytesRoundTrip) {
  EXPECT_EQ(parse_bytes("8"), 8u);
  EXPECT_EQ(parse_bytes("64K"), 65536u);
  EXPECT_EQ(parse_bytes("4KiB"), 4096u);
  EXPECT_EQ(format_bytes(1 << 20), "1Mi");
  EXPECT_EQ(format_bytes(1000), "1000");
  for (const char* bad : {"", "K", "8X", "8Kx", "-1", "99999999999999T", " 8", "8 "})
    EXPECT_FALSE(parse_bytes(bad)) << bad;
}

TEST(Text, Durations) {
  EXPECT_EQ(parse_duration("30"), std::chrono::seconds(30));
  EXPECT_EQ(parse_duration("250ms"), std::chrono::milliseconds(250));
  EXPECT_EQ(format_duration(std::chrono::minutes(5)), "5m");
  for (const char* bad : {"", "s", "3d", "-1s", "9999999999999h"}) EXPECT_FALSE(parse_duration(bad)) << bad;
}

TEST(Settings, DefaultsAndEnvironment) {
  const char* environment[] = {"PATH=/bin", "UNISONO_TIMEOUT=5s", "UNISONO_SLICE_BYTES=1M", nullptr};
  const auto settings = Settings::from_environment(environment);
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->duration(Setting::kTimeout), std::chrono::seconds(5));
  EXPECT_EQ(settings->origin(Setting::kTimeout), "environment");
  EXPECT_EQ(settings->integer(Setting::kSliceBytes), 1 << 20);
  EXPECT_EQ(settings->origin(Setting::kDepth), "default");
}

TEST(Settings, RefusesUnknownNamesAndBadValues) {
  const struct {
    const char* entry;
    const char* message;
  } cases[] = {
      {"UNISONO_TIMOUT=5s", "unknown setting UNISONO_TIMOUT: did you mean UNISONO_TIMEOUT?"},
      {"UNISONO_QQQQQQQQQQQQ=1", "unknown setting UNISONO_QQQQQQQQQQQQ: see `unisono settings`"},
      {"UNISONO_TIMEOUT=soon", "UNISONO_TIMEOUT=soon: expected a duration like 30s, 5m or 250ms"},
      {"UNISONO_DEPTH=0", "UNISONO_DEPTH=0: expected a number from 1 to 64"},
      {"UNISONO_PROGRESS=yes", "UNISONO_PROGRESS=yes: expected one of caller|thread"},
  };
  for (const auto& c : cases) {
    const char* environment[] = {c.entry, nullptr};
    const auto settings = Settings::from_environment(environment);
    ASSERT_FALSE(settings.ok()) << c.entry;
    EXPECT_EQ(settings.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(settings.status().message(), c.message);
  }
}

}  // namespace
}  // namespace unisono
