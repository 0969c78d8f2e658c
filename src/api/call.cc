// SPDX-License-Identifier: Apache-2.0
// The C interface: calls on a communicator.
#include <fmt/format.h>

#include <cstddef>
#include <cstring>

#include "algorithms/registry.h"
#include "api/error.h"
#include "api/feedback.h"
#include "api/handle.h"
#include "api/options.h"

namespace unisono::api {
namespace {

static_assert(UNISONO_INT8 == static_cast<int>(DataType::kInt8));
static_assert(UNISONO_UINT8 == static_cast<int>(DataType::kUint8));
static_assert(UNISONO_INT32 == static_cast<int>(DataType::kInt32));
static_assert(UNISONO_UINT32 == static_cast<int>(DataType::kUint32));
static_assert(UNISONO_INT64 == static_cast<int>(DataType::kInt64));
static_assert(UNISONO_UINT64 == static_cast<int>(DataType::kUint64));
static_assert(UNISONO_FLOAT16 == static_cast<int>(DataType::kFloat16));
static_assert(UNISONO_BFLOAT16 == static_cast<int>(DataType::kBfloat16));
static_assert(UNISONO_FLOAT32 == static_cast<int>(DataType::kFloat32));
static_assert(UNISONO_FLOAT64 == static_cast<int>(DataType::kFloat64));
static_assert(UNISONO_SUM == static_cast<int>(ReduceOp::kSum));
static_assert(UNISONO_PROD == static_cast<int>(ReduceOp::kProd));
static_assert(UNISONO_MIN == static_cast<int>(ReduceOp::kMin));
static_assert(UNISONO_MAX == static_cast<int>(ReduceOp::kMax));
static_assert(UNISONO_AVG == static_cast<int>(ReduceOp::kAvg));

// Of the first version, which ended with the choice.
constexpr size_t kFirstCallOptions = offsetof(unisono_call_options_t, codec);

// The same: it ended with the slices.
constexpr size_t kFirstPlan = offsetof(unisono_plan_t, ran);

// The arguments of a call as they came over the border.
struct Arguments {
  const void* input;
  void* output;
  size_t count;
  unisono_data_type_t type;
  unisono_op_t op;
  const unisono_call_options_t* options;
};

bool is_value(int number, size_t values) {
  return number >= 0 && static_cast<size_t>(number) < values;
}

// Everything but the buffers.
Result<AllReduceCall> read_call(unisono_comm& comm, const Arguments& given) {
  if (!is_value(given.type, kDataTypes.size())) [[unlikely]]
    return invalid_argument(fmt::format("data type is {}: expected 0 to {} (UNISONO_INT8, …)",
                                        given.type, kDataTypes.size() - 1));
  if (!is_value(given.op, kReduceOps.size())) [[unlikely]]
    return invalid_argument(fmt::format("op is {}: expected 0 to {} (UNISONO_SUM, …)", given.op,
                                        kReduceOps.size() - 1));
  Result<AllReduceCall> result(AllReduceCall{.input = given.input,
                                             .output = given.output,
                                             .count = given.count,
                                             .type = static_cast<DataType>(given.type),
                                             .op = static_cast<ReduceOp>(given.op)});
  if (given.options == nullptr) return result;
  AllReduceCall& call = *result;
  const auto options =
      read_struct("unisono_call_options_t", given.options, kFirstCallOptions);
  if (!options.ok()) return options.status();
  if (!(options->max_error >= 0))
    return invalid_argument(fmt::format("max_error is {}: expected a number from 0", options->max_error));
  call.max_error = options->max_error;
  if (options->feedback != nullptr) call.feedback = options->feedback->core.get();
  if (options->codec != nullptr && *options->codec != '\0') {
    const auto codec = find_codec(options->codec);
    if (!codec.ok()) return codec.status();
    call.codec = *codec;
  }
  if (options->choice == nullptr) return result;
  auto choice = comm.choices.find(options->choice);
  if (!choice.ok()) return choice.status();
  call.choice = choice.take();
  return result;
}

Result<AllReduceCall> read_noted_call(unisono_comm& comm, const Arguments& given) {
  auto call = read_call(comm, given);
  if (!call.ok()) return call;
  UNISONO_RETURN_IF_ERROR(check_buffers(*call));
  return call;
}

Status all_reduce(unisono_comm& comm, const Arguments& given) {
  if (comm.group.is_open()) return comm.group.note(read_noted_call(comm, given));
  const auto call = read_call(comm, given);
  return call.ok() ? comm.core->all_reduce(*call) : call.status();
}

Status start(unisono_comm& comm, const Arguments& given, unisono_request_t* request) {
  if (request == nullptr) return invalid_argument("unisono_all_reduce_start: request is NULL");
  if (comm.group.is_open()) return invalid_argument("unisono_all_reduce_start: not inside a group");
  const auto call = read_call(comm, given);
  if (!call.ok()) return call.status();
  Requests::Node node = comm.requests.make_node();
  const auto started = comm.core->start(*call);
  if (!started.ok()) return started.status();
  *request = comm.requests.put(std::move(node), *started);
  return Status();
}

Status end_request(unisono_comm& comm, unisono_request_t request, bool wait) {
  Requests::Node node = comm.requests.take(request);
  if (node.empty())
    return invalid_argument(
        fmt::format("request {} has ended, or is another communicator's", request));
  Status status = wait ? comm.core->wait(node.mapped()) : comm.core->test(node.mapped());
  if (status.code() == StatusCode::kInProgress) comm.requests.put_back(std::move(node));
  return status;
}

Status alloc(unisono_comm& comm, size_t bytes, void** memory) {
  if (memory == nullptr) return invalid_argument("unisono_alloc: memory is NULL");
  if (comm.group.is_open()) return invalid_argument("unisono_alloc: not inside a group");
  const auto allocated = comm.core->allocate(bytes);
  if (!allocated.ok()) return allocated.status().in("unisono_alloc");
  *memory = *allocated;
  return Status();
}

Status free(unisono_comm& comm, void* memory) {
  if (comm.group.is_open()) return invalid_argument("unisono_free: not inside a group");
  return comm.core->free(memory).in("unisono_free");
}

template <size_t kCapacity>
void copy_text(std::string_view text, char (&to)[kCapacity]) {
  const size_t length = std::min(text.size(), kCapacity - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

Status plan(unisono_comm& comm, const Arguments& given, unisono_plan_t* plan) {
  if (plan == nullptr) return invalid_argument("unisono_all_reduce_plan: plan is NULL");
  const auto header = read_struct("unisono_plan_t", plan, kFirstPlan);
  if (!header.ok()) return header.status();
  const auto call = read_call(comm, given);
  if (!call.ok()) return call.status();
  const auto planned = comm.core->plan(*call);
  if (!planned.ok()) return planned.status();
  unisono_plan_t answer{};
  answer.size = plan->size;
  copy_text(to_string(planned->choice, algorithms()), answer.choice);
  copy_text(planned->reason, answer.reason);
  copy_text(planned->form, answer.form);
  copy_text(planned->ran, answer.ran);
  copy_text(planned->transport, answer.transport);
  answer.wire_bytes = planned->wire_bytes;
  answer.slices = planned->slices;
  std::memcpy(plan, &answer, std::min(plan->size, sizeof(answer)));
  return Status();
}

// `body` gets the communicator, which has been checked.
template <typename Body>
unisono_status_t on(unisono_comm_t comm, std::string_view function, Body&& body) noexcept {
  if (!is_usable(comm)) [[unlikely]]
    return guarded(nullptr, [&] { return unusable(comm, function); });
  return guarded(&comm->error, [&]() -> Status { return body(*comm); });
}

}  // namespace
}  // namespace unisono::api

using namespace unisono;       // NOLINT: the C interface lies outside
using namespace unisono::api;  // NOLINT

unisono_status_t unisono_all_reduce(unisono_comm_t comm, const void* input, void* output,
                                    size_t count, unisono_data_type_t type, unisono_op_t op,
                                    const unisono_call_options_t* options) {
  return on(comm, "unisono_all_reduce", [&](unisono_comm& checked) {
    return all_reduce(checked, {input, output, count, type, op, options});
  });
}

unisono_status_t unisono_all_reduce_start(unisono_comm_t comm, const void* input, void* output,
                                          size_t count, unisono_data_type_t type, unisono_op_t op,
                                          const unisono_call_options_t* options,
                                          unisono_request_t* request) {
  return on(comm, "unisono_all_reduce_start", [&](unisono_comm& checked) {
    return start(checked, {input, output, count, type, op, options}, request);
  });
}

unisono_status_t unisono_test(unisono_comm_t comm, unisono_request_t request) {
  return on(comm, "unisono_test",
            [&](unisono_comm& checked) { return end_request(checked, request, false); });
}

unisono_status_t unisono_wait(unisono_comm_t comm, unisono_request_t request) {
  return on(comm, "unisono_wait",
            [&](unisono_comm& checked) { return end_request(checked, request, true); });
}

unisono_status_t unisono_alloc(unisono_comm_t comm, size_t bytes, void** memory) {
  return on(comm, "unisono_alloc", [&](unisono_comm& checked) { return api::alloc(checked, bytes, memory); });
}

unisono_status_t unisono_free(unisono_comm_t comm, void* memory) {
  return on(comm, "unisono_free", [&](unisono_comm& checked) { return api::free(checked, memory); });
}

unisono_status_t unisono_group_begin(unisono_comm_t comm) {
  return on(comm, "unisono_group_begin",
            [](unisono_comm& checked) { return checked.group.begin(); });
}

unisono_status_t unisono_group_end(unisono_comm_t comm) {
  return on(comm, "unisono_group_end", [](unisono_comm& checked) { return checked.group.end(); });
}

unisono_status_t unisono_group_discard(unisono_comm_t comm) {
  return on(comm, "unisono_group_discard",
            [](unisono_comm& checked) { return checked.group.discard(); });
}

unisono_status_t unisono_all_reduce_plan(unisono_comm_t comm, size_t count,
                                         unisono_data_type_t type, unisono_op_t op,
                                         const unisono_call_options_t* options,
                                         unisono_plan_t* plan) {
  return on(comm, "unisono_all_reduce_plan", [&](unisono_comm& checked) {
    return api::plan(checked, {nullptr, nullptr, count, type, op, options}, plan);
  });
}
