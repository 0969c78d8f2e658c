// SPDX-License-Identifier: Apache-2.0
// Where failures go at the border to C: the texts behind unisono_last_error(), and no exceptions.
#pragma once

#include <array>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "unisono/unisono.h"

namespace unisono::api {

// One line, cut to fit. No allocation, so that it can be told that there is no memory.
class ErrorText {
 public:
  void set(std::string_view text);
  const char* c_str() const { return bytes_.data(); }

 private:
  std::array<char, 1024> bytes_{};
};

// The same for several threads.
class SharedErrorText {
 public:
  void set(std::string_view text);
  ErrorText copy() const;

 private:
  mutable std::mutex mutex_;
  ErrorText text_;
};

// This thread's last failure.
ErrorText& last_error();

// Notes a failure for this thread, and for `shared` if there is one. Gives its number.
unisono_status_t tell(StatusCode code, std::string_view message, SharedErrorText* shared);
unisono_status_t tell_exception(SharedErrorText* shared);  // the one that is being handled

// Runs `body`, which returns a Status, at the border to C.
template <typename Body>
unisono_status_t guarded(SharedErrorText* shared, Body&& body) noexcept {
  try {
    const Status status = std::forward<Body>(body)();
    if (status.ok()) return UNISONO_OK;
    if (status.code() == StatusCode::kInProgress) return UNISONO_IN_PROGRESS;
    return tell(status.code(), status.message(), shared);
  } catch (...) {
    return tell_exception(shared);
  }
}

}  // namespace unisono::api
