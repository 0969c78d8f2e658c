// SPDX-License-Identifier: Apache-2.0
#include "api/error.h"

#include <algorithm>
#include <new>
#include <system_error>

namespace unisono::api {

void ErrorText::set(std::string_view text) {
  const size_t length = std::min(text.size(), bytes_.size() - 1);
  std::copy_n(text.data(), length, bytes_.data());
  bytes_[length] = '\0';
}

void SharedErrorText::set(std::string_view text) {
  const std::lock_guard lock(mutex_);
  text_.set(text);
}

ErrorText SharedErrorText::copy() const {
  const std::lock_guard lock(mutex_);
  return text_;
}

ErrorText& last_error() {
  thread_local ErrorText text;
  return text;
}

unisono_status_t tell(StatusCode code, std::string_view message, SharedErrorText* shared) {
  last_error().set(message);
  if (shared != nullptr) shared->set(message);
  return static_cast<unisono_status_t>(code);
}

unisono_status_t tell_exception(SharedErrorText* shared) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return tell(StatusCode::kOutOfResources, "out of memory", shared);
  } catch (const std::system_error& error) {
    return tell(StatusCode::kSystem, error.what(), shared);
  } catch (const std::exception& error) {
    return tell(StatusCode::kInternal, error.what(), shared);
  } catch (...) {
    return tell(StatusCode::kInternal, "unknown exception", shared);
  }
}

}  // namespace unisono::api
