// SPDX-License-Identifier: Apache-2.0
// Unisono's C++20 interface: the C interface with owners, types and exceptions. Header-only, so
// that the compiler and standard library of the caller need not be the library's.
//
// Every failure is an unisono::Error with the status of unisono.h, whose rules for errors, threads,
// order and fork() hold here too. Buffers are contiguous ranges (std::span, std::vector, arrays) of
// numbers; the element type says the data type.
//
//   auto communicator = unisono::Communicator::from_environment();
//   std::vector<float> gradient = ...;
//   communicator.all_reduce(gradient, unisono::Op::kAvg);
#ifndef UNISONO_UNISONO_HPP_
#define UNISONO_UNISONO_HPP_

#if __cplusplus <= 201703L
#error "unisono.hpp needs C++20 (-std=c++20); C and older C++ use unisono.h"
#else

#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "unisono/unisono.h"

namespace unisono {
// A namespace of its own for the linker: a program may mix headers of two versions, each in its
// files.
inline namespace cpp0 {

enum class Op : unisono_op_t {
  kSum = UNISONO_SUM,
  kProd = UNISONO_PROD,
  kMin = UNISONO_MIN,
  kMax = UNISONO_MAX,
  kAvg = UNISONO_AVG,
};

// What every function throws.
class Error : public std::runtime_error {
 public:
  Error(unisono_status_t status, const char* message)
      : std::runtime_error(std::string(unisono_status_string(status)) + ": " + message),
        status_(status) {}
  unisono_status_t status() const noexcept { return status_; }  // UNISONO_TIMEOUT …

 private:
  unisono_status_t status_;
};

namespace detail {
inline void check(unisono_status_t status) {
  if (status != UNISONO_OK) throw Error(status, unisono_last_error());
}
template <typename T>
consteval unisono_data_type_t number_type() {
  if constexpr (std::same_as<T, float>) return UNISONO_FLOAT32;
  if constexpr (std::same_as<T, double>) return UNISONO_FLOAT64;
  if constexpr (std::integral<T> && sizeof(T) == 1)
    return std::is_signed_v<T> ? UNISONO_INT8 : UNISONO_UINT8;
  if constexpr (std::integral<T> && sizeof(T) == 4)
    return std::is_signed_v<T> ? UNISONO_INT32 : UNISONO_UINT32;
  if constexpr (std::integral<T> && sizeof(T) == 8)
    return std::is_signed_v<T> ? UNISONO_INT64 : UNISONO_UINT64;
  return -1;
}
}  // namespace detail

// The data type of an element type; -1 for one that there is none for. Specialise it for a 16-bit
// float of your own:  template <> inline constexpr unisono_data_type_t unisono::data_type_of<Half>
// = UNISONO_FLOAT16;
template <typename T>
inline constexpr unisono_data_type_t data_type_of = std::same_as<T, bool>
                                                        ? -1
                                                        : detail::number_type<T>();

template <typename T>
concept Element = std::is_trivially_copyable_v<T> && data_type_of<std::remove_cv_t<T>>
>= 0;

template <typename R>
concept Buffer = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    Element<std::ranges::range_value_t<R>>;
// One that may be written, also through a temporary view of it.
template <typename R>
concept OutputBuffer = Buffer<R> && std::ranges::borrowed_range<R> &&
    !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

// How a communicator is made; see unisono_options_t.
struct Options {
  std::vector<std::string> settings = {};  // "UNISONO_TIMEOUT=5s"
  std::vector<int> servers = {};
};

using UniqueId = unisono_unique_id_t;

namespace detail {
// The C struct of an Options, which must outlive it.
class COptions {
 public:
  explicit COptions(const Options& options) {
    for (const std::string& pair : options.settings) pairs_.push_back(pair.c_str());
    pairs_.push_back(nullptr);
    c_.settings = pairs_.data();
    c_.servers = options.servers.data();
    c_.server_count = options.servers.size();
  }
  operator const unisono_options_t*() const { return &c_; }

 private:
  std::vector<const char*> pairs_;
  unisono_options_t c_ = UNISONO_OPTIONS_INIT;
};
}  // namespace detail

inline UniqueId make_unique_id(const Options& options = {}) {
  UniqueId id;
  detail::check(unisono_get_unique_id(detail::COptions(options), &id));
  return id;
}

// A started call. Owns its end: the destructor waits for it, and drops its error; wait() to learn
// of it. Must end before its communicator and its buffers do.
class Request {
 public:
  Request() = default;  // of no call
  Request(unisono_comm_t comm, unisono_request_t number) : comm_(comm), number_(number) {}
  Request(Request&& other) noexcept
      : comm_(other.comm_), number_(std::exchange(other.number_, 0)) {}
  Request& operator=(Request&& other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~Request() {
    if (number_ != 0) (void)unisono_wait(comm_, number_);
  }

  bool pending() const noexcept { return number_ != 0; }
  // Blocks until the call has ended; nothing to do if it has.
  void wait() {
    if (number_ != 0) detail::check(unisono_wait(comm_, std::exchange(number_, 0)));
  }
  // Moves the call on; whether it has ended.
  bool test() {
    if (number_ == 0) return true;
    const unisono_status_t status = unisono_test(comm_, number_);
    if (status == UNISONO_IN_PROGRESS) return false;
    number_ = 0;
    detail::check(status);
    return true;
  }

 private:
  unisono_comm_t comm_ = nullptr;
  unisono_request_t number_ = 0;
};

// Keeps what a codec loses of a tensor; see Error feedback in unisono.h. Owns a unisono_feedback_t,
// and must outlive the calls that it is given to.
class Feedback {
 public:
  Feedback(const std::string& name, size_t count) {
    unisono_feedback_t feedback;
    detail::check(unisono_feedback_create(name.c_str(), count, &feedback));
    feedback_.reset(feedback);
  }

  void reset() { detail::check(unisono_feedback_reset(get())); }
  std::vector<std::byte> export_state() const {
    size_t size = 0;
    detail::check(unisono_feedback_export(get(), nullptr, 0, &size));
    std::vector<std::byte> bytes(size);
    detail::check(unisono_feedback_export(get(), bytes.data(), bytes.size(), &size));
    return bytes;
  }
  void import_state(std::span<const std::byte> bytes) {
    detail::check(unisono_feedback_import(get(), bytes.data(), bytes.size()));
  }
  unisono_feedback_state_t query() const {
    unisono_feedback_state_t state = UNISONO_FEEDBACK_STATE_INIT;
    detail::check(unisono_feedback_query(get(), &state));
    return state;
  }
  unisono_feedback_t get() const { return feedback_.get(); }  // still owned here

 private:
  struct Destroy {
    void operator()(unisono_feedback_t feedback) const { (void)unisono_feedback_destroy(feedback); }
  };
  std::unique_ptr<unisono_feedback, Destroy> feedback_;
};

// How a call is run; see unisono_call_options_t. A text alone is the choice.
struct CallOptions {
  CallOptions() = default;
  CallOptions(std::string text) : choice(std::move(text)) {}  // NOLINT: implicit on purpose
  CallOptions(const char* text) : choice(text) {}             // NOLINT: implicit on purpose

  std::string choice = {}, codec = {};
  double max_error = 0;
  Feedback* feedback = nullptr;
};

// What runs a call; see unisono_plan_t.
struct Plan {
  std::string choice, reason, form, transport;
  uint64_t wire_bytes, slices;
  std::string ran;
};

// One rank. Owns a unisono_comm_t.
class Communicator {
 public:
  // The ways of creation are those of unisono.h.
  static Communicator from_environment(const Options& options = {}) {
    unisono_comm_t comm;
    detail::check(unisono_comm_create_from_environment(detail::COptions(options), &comm));
    return Communicator(comm);
  }
  static Communicator create(const UniqueId& id, int size, int rank, const Options& options = {}) {
    unisono_comm_t comm;
    detail::check(unisono_comm_create(&id, size, rank, detail::COptions(options), &comm));
    return Communicator(comm);
  }
  // As MPI_Allgather; an exception ends the creation, and comes out of it.
  using AllGather = std::function<void(std::span<const std::byte> mine, std::span<std::byte> all)>;
  static Communicator from_callback(const AllGather& all_gather, int size, int rank,
                                    const Options& options = {}) {
    CallbackState state{all_gather, size, nullptr};
    unisono_comm_t comm;
    const unisono_status_t status = unisono_comm_create_from_callback(
        &run_callback, &state, size, rank, detail::COptions(options), &comm);
    if (state.thrown) std::rethrow_exception(state.thrown);
    detail::check(status);
    return Communicator(comm);
  }
  // All ranks, each for a thread of its own.
  static std::vector<Communicator> local(int size, const Options& options = {}) {
    std::vector<unisono_comm_t> comms(size > 0 ? static_cast<size_t>(size) : 1);
    std::vector<Communicator> ranks;
    ranks.reserve(comms.size());
    detail::check(unisono_comm_create_local(size, detail::COptions(options), comms.data()));
    for (const unisono_comm_t comm : comms) ranks.push_back(Communicator(comm));
    return ranks;
  }
  // Takes over a communicator of the C interface.
  explicit Communicator(unisono_comm_t comm) : comm_(comm) {}

  int rank() const { return unisono_comm_rank(get()); }
  int size() const { return unisono_comm_size(get()); }
  unisono_comm_t get() const { return comm_.get(); }  // still owned here

  // In place. `how`: what must run it, e.g. "ring depth=4", and more; settings and rules decide the
  // rest.
  template <OutputBuffer R>
  void all_reduce(R&& values, Op op = Op::kSum, const CallOptions& how = {}) {
    all_reduce(values, values, op, how);
  }
  template <Buffer I, OutputBuffer O>
  requires std::same_as<std::ranges::range_value_t<I>, std::ranges::range_value_t<O>>
  void all_reduce(I&& input, O&& output, Op op = Op::kSum, const CallOptions& how = {}) {
    const unisono_call_options_t options = c_options(how);
    detail::check(unisono_all_reduce(get(), std::ranges::data(input), std::ranges::data(output),
                                     common_count(input, output), type_of<O>(),
                                     static_cast<unisono_op_t>(op), &options));
  }

  // The same without waiting; the buffers must live on until the request has ended.
  template <OutputBuffer R>
  [[nodiscard]] Request start(R&& values, Op op = Op::kSum, const CallOptions& how = {}) {
    return start(values, values, op, how);
  }
  template <Buffer I, OutputBuffer O>
  requires std::ranges::borrowed_range<I> &&
      std::same_as<std::ranges::range_value_t<I>, std::ranges::range_value_t<O>>
  [[nodiscard]] Request start(I&& input, O&& output, Op op = Op::kSum,
                              const CallOptions& how = {}) {
    const unisono_call_options_t options = c_options(how);
    unisono_request_t number;
    detail::check(unisono_all_reduce_start(
        get(), std::ranges::data(input), std::ranges::data(output), common_count(input, output),
        type_of<O>(), static_cast<unisono_op_t>(op), &options, &number));
    return Request(get(), number);
  }

  // Runs the all_reduce calls that `fill` makes on this communicator as one call. If `fill` throws,
  // nothing runs.
  template <std::invocable F>
  void group(F&& fill) {
    detail::check(unisono_group_begin(get()));
    try {
      std::forward<F>(fill)();
    } catch (...) {
      (void)unisono_group_discard(get());
      throw;
    }
    detail::check(unisono_group_end(get()));
  }

  // What would run an all_reduce of `count` elements; no communication.
  template <Element T>
  Plan plan(size_t count, Op op = Op::kSum, const CallOptions& how = {}) const {
    const unisono_call_options_t options = c_options(how);
    unisono_plan_t plan = UNISONO_PLAN_INIT;
    detail::check(unisono_all_reduce_plan(get(), count, data_type_of<T>,
                                          static_cast<unisono_op_t>(op), &options, &plan));
    return {plan.choice, plan.reason, plan.form, plan.transport, plan.wire_bytes, plan.slices,
            plan.ran};
  }

  // `feedback` is this communicator's from now on.
  void rebind(Feedback& feedback) { detail::check(unisono_feedback_rebind(feedback.get(), get())); }

  // From any thread at any time: pending and later calls end as UNISONO_ABORTED.
  void abort() { detail::check(unisono_comm_abort(get())); }

 private:
  struct Destroy {
    void operator()(unisono_comm_t comm) const { (void)unisono_comm_destroy(comm); }
  };
  struct CallbackState {
    const AllGather& all_gather;
    int size;
    std::exception_ptr thrown;
  };

  static int run_callback(void* context, const void* mine, void* all, size_t bytes) noexcept {
    auto& state = *static_cast<CallbackState*>(context);
    try {
      state.all_gather({static_cast<const std::byte*>(mine), bytes},
                       {static_cast<std::byte*>(all), bytes * static_cast<size_t>(state.size)});
      return 0;
    } catch (...) {
      state.thrown = std::current_exception();
      return 1;
    }
  }
  static unisono_call_options_t c_options(const CallOptions& options) {
    return {sizeof(unisono_call_options_t), options.choice.c_str(), options.codec.c_str(),
            options.max_error, options.feedback == nullptr ? nullptr : options.feedback->get()};
  }
  template <typename R>
  static consteval unisono_data_type_t type_of() {
    return data_type_of<std::ranges::range_value_t<R>>;
  }
  static size_t common_count(const auto& input, const auto& output) {
    const auto counts = std::pair(std::ranges::size(input), std::ranges::size(output));
    if (!std::cmp_equal(counts.first, counts.second))
      throw Error(UNISONO_INVALID_ARGUMENT,
                  ("input has " + std::to_string(counts.first) + " elements, output has " +
                   std::to_string(counts.second))
                      .c_str());
    return static_cast<size_t>(counts.first);
  }

  std::unique_ptr<unisono_comm, Destroy> comm_;
};

// `count` numbers, zero at first, in memory that the ranks of a host all map; see Memory in unisono.h. A contiguous
// range, so it serves as a buffer, whole or as a span of a part. Making and ending it is collective: all ranks do so
// in the same order, after their calls have ended and before the communicator's end.
template <Element T>
class MappedArray {
 public:
  MappedArray(Communicator& communicator, size_t count) : count_(count) {
    const size_t bytes = count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
    void* memory;
    detail::check(unisono_alloc(communicator.get(), bytes, &memory));
    memory_ = {static_cast<T*>(memory), Free{communicator.get()}};
  }

  T* data() noexcept { return memory_.get(); }
  const T* data() const noexcept { return memory_.get(); }
  size_t size() const noexcept { return memory_ == nullptr ? 0 : count_; }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size(); }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size(); }
  T& operator[](size_t index) noexcept { return data()[index]; }
  const T& operator[](size_t index) const noexcept { return data()[index]; }

 private:
  struct Free {
    unisono_comm_t comm = nullptr;
    void operator()(T* memory) const { (void)unisono_free(comm, memory); }
  };
  size_t count_;
  std::unique_ptr<T, Free> memory_;
};

}  // namespace cpp0
}  // namespace unisono

#endif  // C++20
#endif  // UNISONO_UNISONO_HPP_
