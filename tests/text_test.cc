// SPDX-License-Identifier: Apache-2.0
// The small languages of users: sizes, durations, names, networks, settings.
#include "base/text.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/network.h"
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

TEST(Text, Hexadecimal) {
  EXPECT_EQ(parse_hexadecimal("007fFFa0"), std::string("\0\x7f\xff\xa0", 4));
  EXPECT_EQ(parse_hexadecimal(""), "");
  for (const char* bad : {"0", "0x", "g0", "-1", "+1", " 1", "1 "}) EXPECT_FALSE(parse_hexadecimal(bad)) << bad;
}

TEST(Network, Ports) {
  EXPECT_TRUE(parse_ports("")->is_any());
  EXPECT_TRUE(parse_ports("7")->contains(7));
  EXPECT_FALSE(parse_ports("7")->contains(8));
  EXPECT_EQ(parse_ports("20000:65535")->last, 65535);
  for (const char* bad : {"0:5", "9:8", "1:65536", "1:2:3", "a:b", ":", "1:", "-1:2", "1-2"})
    EXPECT_FALSE(parse_ports(bad)) << bad;
}

TEST(Network, Subnets) {
  const uint8_t inside[] = {10, 1, 255, 3}, outside[] = {10, 2, 0, 0};
  const auto subnet = parse_subnet("10.1.0.0/16");
  ASSERT_TRUE(subnet);
  EXPECT_TRUE(subnet->contains(AF_INET, inside));
  EXPECT_FALSE(subnet->contains(AF_INET, outside));
  EXPECT_FALSE(subnet->contains(AF_INET6, inside));
  EXPECT_TRUE(parse_subnet("0.0.0.0/0")->contains(AF_INET, outside));
  EXPECT_TRUE(parse_subnet("10.1.255.3")->contains(AF_INET, inside));
  EXPECT_EQ(parse_subnet("fd00::/8")->bits, 8u);
  for (const char* bad : {"", "eth0", "10.1.0.0/33", "::1/129", "10.1.0.0/", "10.1/16", "10.1.0.0/-1", "::/0/0"})
    EXPECT_FALSE(parse_subnet(bad)) << bad;
}

TEST(Settings, DefaultsAndEnvironment) {
  const char* environment[] = {"PATH=/bin", "UNISONO_TIMEOUT=5s", "UNISONO_SLICE_BYTES=1M", nullptr};
  const auto settings = Settings::from_environment(environment);
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->duration(Setting::kTimeout), std::chrono::seconds(5));
  EXPECT_EQ(settings->origin(Setting::kTimeout), "environment");
  EXPECT_EQ(settings->integer(Setting::kSliceBytes), 1 << 20);
  EXPECT_EQ(settings->origin(Setting::kDepth), "default");
  EXPECT_TRUE(settings->ports(Setting::kPortRange).is_any());
  Settings changed;
  EXPECT_TRUE(changed.set("UNISONO_PORT_RANGE", "20000:65535", "test").ok());
  EXPECT_EQ(changed.ports(Setting::kPortRange).first, 20000);
  EXPECT_EQ(changed.ports(Setting::kPortRange).last, 65535);
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
      {"UNISONO_PORT_RANGE=9:8", "UNISONO_PORT_RANGE=9:8: expected ports like 20000:20100"},
      {"UNISONO_INTERFACE=10.1.0.0/99",
       "UNISONO_INTERFACE=10.1.0.0/99: expected a name, an address, or a subnet like 10.1.0.0/16"},
      {"UNISONO_JOB_TOKEN=abc", "UNISONO_JOB_TOKEN: expected 32 hexadecimal digits, got 3 characters"},
      {"UNISONO_JOB_TOKEN=000102030405060708090a0b0c0d0eXX",
       "UNISONO_JOB_TOKEN: expected 32 hexadecimal digits, got 32 characters"},
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
