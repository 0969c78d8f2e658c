// SPDX-License-Identifier: Apache-2.0
#include "api/feedback.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "api/error.h"
#include "api/handle.h"
#include "api/options.h"

namespace unisono::api {
namespace {

Status null_argument(std::string_view function, std::string_view name) {
  return invalid_argument(fmt::format("{}: {} is NULL", function, name));
}

// `body` gets the feedback, which is not null.
template <typename Body>
unisono_status_t on(unisono_feedback_t feedback, std::string_view function, Body&& body) noexcept {
  return guarded(nullptr, [&]() -> Status {
    if (feedback == nullptr) return null_argument(function, "feedback");
    return body(*feedback->core);
  });
}

Status create(const char* name, size_t count, unisono_feedback_t* feedback) {
  if (name == nullptr) return null_argument("unisono_feedback_create", "name");
  if (feedback == nullptr) return null_argument("unisono_feedback_create", "feedback");
  auto core = Feedback::create(name, count);
  if (!core.ok()) return core.status();
  *feedback = new unisono_feedback{core.take()};
  return Status();
}

Status export_bytes(const Feedback& feedback, void* bytes, size_t capacity, size_t* size) {
  if (size == nullptr) return null_argument("unisono_feedback_export", "size");
  *size = feedback.export_bytes();
  if (bytes == nullptr) return Status();
  if (capacity < *size)
    return invalid_argument(fmt::format(
        "unisono_feedback_export: expected a capacity of {} bytes, got {}", *size, capacity));
  const auto exported = feedback.export_state();
  if (exported.ok()) std::memcpy(bytes, exported->data(), exported->size());
  return exported.status();
}

Status query(const Feedback& feedback, unisono_feedback_state_t* state) {
  if (state == nullptr) return null_argument("unisono_feedback_query", "state");
  const auto header =
      read_struct("unisono_feedback_state_t", state, sizeof(unisono_feedback_state_t));
  if (!header.ok()) return header.status();
  UNISONO_RETURN_IF_ERROR(feedback.check_idle());
  const Feedback::State known = feedback.query();
  const unisono_feedback_state_t answer{state->size, known.norm, known.steps, known.resets};
  std::memcpy(state, &answer, std::min(state->size, sizeof(answer)));
  return Status();
}

}  // namespace
}  // namespace unisono::api

using namespace unisono;       // NOLINT: the C interface lies outside
using namespace unisono::api;  // NOLINT

unisono_status_t unisono_feedback_create(const char* name, size_t count,
                                         unisono_feedback_t* feedback) {
  return guarded(nullptr, [&] { return create(name, count, feedback); });
}

unisono_status_t unisono_feedback_destroy(unisono_feedback_t feedback) {
  if (feedback == nullptr) return UNISONO_OK;
  return on(feedback, "unisono_feedback_destroy", [&](Feedback& core) {
    Status status = core.check_idle();
    if (status.ok()) delete feedback;
    return status;
  });
}

unisono_status_t unisono_feedback_reset(unisono_feedback_t feedback) {
  return on(feedback, "unisono_feedback_reset", [](Feedback& core) { return core.reset(); });
}

unisono_status_t unisono_feedback_rebind(unisono_feedback_t feedback, unisono_comm_t comm) {
  return on(feedback, "unisono_feedback_rebind", [&](Feedback& core) {
    if (!is_usable(comm)) return unusable(comm, "unisono_feedback_rebind");
    return core.rebind(*comm->core);
  });
}

unisono_status_t unisono_feedback_export(unisono_feedback_t feedback, void* bytes, size_t capacity,
                                         size_t* size) {
  return on(feedback, "unisono_feedback_export",
            [&](Feedback& core) { return export_bytes(core, bytes, capacity, size); });
}

unisono_status_t unisono_feedback_import(unisono_feedback_t feedback, const void* bytes,
                                         size_t size) {
  return on(feedback, "unisono_feedback_import", [&](Feedback& core) {
    if (bytes == nullptr) return null_argument("unisono_feedback_import", "bytes");
    return core.import_state({static_cast<const char*>(bytes), size});
  });
}

unisono_status_t unisono_feedback_query(unisono_feedback_t feedback,
                                        unisono_feedback_state_t* state) {
  return on(feedback, "unisono_feedback_query", [&](Feedback& core) { return query(core, state); });
}
