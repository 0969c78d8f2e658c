// SPDX-License-Identifier: Apache-2.0
// Status: what went wrong, in one line, and how much has to be rebuilt. Result<T>: a value or a Status.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace unisono {

// Ordered by what must be rebuilt after it: nothing, the call, a peer, the communicator.
// The numbers are part of the C ABI (unisono_status_t): append only.
enum class StatusCode : int {
  kOk = 0,
  kInProgress = 1,        // test(): the call has not finished
  kInvalidArgument = 2,   // the caller's mistake, found before any communication
  kUnsupported = 3,       // asked for by name and cannot serve (algorithm, codec, transport, type, op)
  kOutOfResources = 4,    // memory, descriptors; the message says need and have
  kMismatch = 5,          // ranks made different calls; the message names both sides
  kTimeout = 6,           // a deadline passed; the message says who was waited for
  kPeerFailed = 7,        // a peer died or closed; the message names it
  kAborted = 8,           // this communicator was aborted or is being destroyed
  kSystem = 9,            // the operating system refused something
  kInternal = 10,         // a bug of ours
};

std::string_view name_of(StatusCode code);

// One word when ok. Thread-safe as a value (no shared state).
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : detail_(code == StatusCode::kOk ? nullptr
                                        : std::make_unique<Detail>(Detail{code, std::move(message)})) {}
  Status(const Status& other) { *this = other; }
  Status(Status&&) noexcept = default;
  Status& operator=(const Status& other) {
    if (this != &other) detail_ = other.detail_ ? std::make_unique<Detail>(*other.detail_) : nullptr;
    return *this;
  }
  Status& operator=(Status&&) noexcept = default;

  bool ok() const { return detail_ == nullptr; }
  StatusCode code() const { return ok() ? StatusCode::kOk : detail_->code; }
  std::string_view message() const { return ok() ? std::string_view("ok") : detail_->message; }

  // The same failure seen from further out: "context: message".
  Status in(std::string_view context) const;

 private:
  struct Detail {
    StatusCode code;
    std::string message;
  };
  std::unique_ptr<Detail> detail_;
};

// A value, or why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T take() { return std::move(*value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

inline Status invalid_argument(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}
inline Status unsupported(std::string message) {
  return Status(StatusCode::kUnsupported, std::move(message));
}
// kSystem with the text of errno: "what: No such file or directory".
Status system_error(std::string_view what);

#define UNISONO_RETURN_IF_ERROR(expression)                     \
  do {                                                          \
    if (::unisono::Status unisono_status_ = (expression); !unisono_status_.ok()) \
      return unisono_status_;                                   \
  } while (false)

}  // namespace unisono
