// SPDX-License-Identifier: Apache-2.0
// Ranks as threads through the C interface, for tests that see only what a user sees.
#pragma once

#include <gtest/gtest.h>
#include <unisono/unisono.h>

#include <functional>
#include <thread>
#include <vector>

namespace unisono::testing {

// Options with a deadline that turns a hang into a failure with a name, and one more setting.
class TestOptions {
 public:
  explicit TestOptions(const char* setting = nullptr)
      : settings_{"UNISONO_TIMEOUT=20s", setting, nullptr} {
    options_.settings = settings_;
  }
  TestOptions(const TestOptions&) = delete;
  operator const unisono_options_t*() const { return &options_; }

 private:
  const char* settings_[3];
  unisono_options_t options_ = UNISONO_OPTIONS_INIT;
};

// Runs `body` on `size` ranks, each a thread with its own communicator, and destroys those.
inline void on_ranks(int size, const std::function<void(unisono_comm_t comm, int rank)>& body,
                     const unisono_options_t* options = TestOptions()) {
  std::vector<unisono_comm_t> comms(static_cast<size_t>(size), nullptr);
  ASSERT_EQ(unisono_comm_create_local(size, options, comms.data()), UNISONO_OK)
      << unisono_last_error();
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] { body(comms[static_cast<size_t>(rank)], rank); });
  }
  for (const unisono_comm_t comm : comms) EXPECT_EQ(unisono_comm_destroy(comm), UNISONO_OK);
}

}  // namespace unisono::testing
