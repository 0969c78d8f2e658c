// SPDX-License-Identifier: Apache-2.0
// Which outputs go past the cache: by size, and between by what calls have taken.
#include "execute/output_stores.h"

#include <gtest/gtest.h>

namespace unisono {
namespace {

using std::chrono::microseconds;

constexpr size_t kCache = size_t{1} << 20;

TEST(OutputStores, SmallOnesNeverAndHugeOnesAlways) {
  EXPECT_FALSE(OutputStores(4096, kCache).stream());
  EXPECT_FALSE(OutputStores(kCache / 2 - 1, kCache).stream());
  EXPECT_TRUE(OutputStores(8 * kCache, kCache).stream());
  for (const size_t bytes : {size_t{0}, kCache / 2 - 1, 8 * kCache})
    EXPECT_FALSE(OutputStores(bytes, kCache).measures()) << bytes;
  for (const size_t bytes : {kCache / 2, kCache, 8 * kCache - 1})
    EXPECT_TRUE(OutputStores(bytes, kCache).measures()) << bytes;
}

// How many of a period's calls are streamed where these are the times.
uint32_t streamed(OutputStores& stores, microseconds cached, microseconds past, microseconds first = {}) {
  uint32_t count = 0;
  for (uint32_t call = 0; call < OutputStores::kPeriod; ++call) {
    const bool streams = stores.stream();
    count += streams ? 1 : 0;
    stores.note((streams ? past : cached) + (call < 2 ? first : microseconds(0)));
  }
  return count;
}

TEST(OutputStores, WhatIsQuickerIsUsedUntilItNoLongerIs) {
  constexpr uint32_t kHalf = OutputStores::kTrials / 2, kMost = OutputStores::kPeriod - kHalf;
  OutputStores stores(2 * kCache, kCache);
  EXPECT_EQ(streamed(stores, microseconds(200), microseconds(100)), kMost);
  EXPECT_EQ(streamed(stores, microseconds(100), microseconds(200)), kHalf);
  EXPECT_EQ(streamed(stores, microseconds(100), microseconds(50), microseconds(5000)), kMost);  // new pages
  EXPECT_EQ(streamed(stores, microseconds(100), microseconds(99)), kHalf);  // hardly quicker, and then not in the cache
}

}  // namespace
}  // namespace unisono
