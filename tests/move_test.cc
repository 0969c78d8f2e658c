// SPDX-License-Identifier: Apache-2.0
// Copies past the cache: every length and alignment, on every instruction set, in bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "instruction_sets.h"
#include "kernels/move.h"

namespace unisono {
namespace {

constexpr size_t kGuard = 64;
constexpr std::byte kUntouched{0xa5};

TEST(Stream, CopiesEveryLengthAtEveryAlignment) {
  std::vector<std::byte> from(1024), room(from.size() + 3 * kGuard);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
  on_every_instruction_set([&] {
    for (size_t bytes : {0, 1, 7, 63, 64, 65, 127, 128, 500, 960}) {
      for (size_t shift = 0; shift < kGuard; ++shift) {
        std::ranges::fill(room, kUntouched);
        std::byte* const to = room.data() + kGuard + shift;
        stream(to, from.data() + shift, bytes);
        end_streams();
        ASSERT_EQ(std::memcmp(to, from.data() + shift, bytes), 0) << bytes << " at " << shift;
        ASSERT_EQ(std::count(room.data(), to, kUntouched), to - room.data());
        ASSERT_EQ(std::count(to + bytes, room.data() + room.size(), kUntouched),
                  room.data() + room.size() - (to + bytes));
      }
    }
  });
}

TEST(Stream, TheCoreHasACache) {
  EXPECT_GE(core_cache_bytes(), size_t{64} << 10);
  EXPECT_LE(core_cache_bytes(), size_t{64} << 20);
}

}  // namespace
}  // namespace unisono
