// SPDX-License-Identifier: Apache-2.0
// The C interface: making and ending communicators, and what can be asked without one.
#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "api/error.h"
#include "api/handle.h"
#include "api/options.h"
#include "bootstrap/bootstrap.h"
#include "communicator/communicator.h"

namespace unisono::api {
namespace {

static_assert(sizeof(unisono_unique_id_t) == sizeof(UniqueId));
static_assert(UNISONO_OK == static_cast<int>(StatusCode::kOk));
static_assert(UNISONO_IN_PROGRESS == static_cast<int>(StatusCode::kInProgress));
static_assert(UNISONO_INVALID_ARGUMENT == static_cast<int>(StatusCode::kInvalidArgument));
static_assert(UNISONO_UNSUPPORTED == static_cast<int>(StatusCode::kUnsupported));
static_assert(UNISONO_OUT_OF_RESOURCES == static_cast<int>(StatusCode::kOutOfResources));
static_assert(UNISONO_MISMATCH == static_cast<int>(StatusCode::kMismatch));
static_assert(UNISONO_TIMEOUT == static_cast<int>(StatusCode::kTimeout));
static_assert(UNISONO_PEER_FAILED == static_cast<int>(StatusCode::kPeerFailed));
static_assert(UNISONO_ABORTED == static_cast<int>(StatusCode::kAborted));
static_assert(UNISONO_SYSTEM == static_cast<int>(StatusCode::kSystem));
static_assert(UNISONO_INTERNAL == static_cast<int>(StatusCode::kInternal));

Status null_argument(std::string_view function, std::string_view name) {
  return invalid_argument(fmt::format("{}: {} is NULL", function, name));
}

Result<std::unique_ptr<unisono_comm>> connect(std::unique_ptr<Bootstrap> bootstrap,
                                              const Creation& creation) {
  auto core = Communicator::create(std::move(bootstrap), creation.settings, creation.communicator);
  if (!core.ok()) return core.status();
  return std::make_unique<unisono_comm>(
      core.take(), static_cast<size_t>(creation.settings.integer(Setting::kFuseBytes)));
}

// What the creating functions have in common but for local ones. `bootstrap` makes the way to the
// other ranks from the settings and a deadline.
template <typename MakeBootstrap>
Status create(std::string_view function, const unisono_options_t* options, unisono_comm_t* comm,
              MakeBootstrap&& bootstrap) {
  if (comm == nullptr) return null_argument(function, "comm");
  const auto creation = read_options(options);
  if (!creation.ok()) return creation.status().in(function);
  const Deadline deadline = Deadline::after(creation->settings.duration(Setting::kTimeout));
  Result<std::unique_ptr<Bootstrap>> made = bootstrap(creation->settings, deadline);
  if (!made.ok()) return made.status().in(function);
  auto connected = connect(made.take(), *creation);
  if (!connected.ok()) return connected.status().in(function);
  *comm = connected->release();
  return Status();
}

// Every rank connects in a thread of its own: each waits for all others. Which threads will make the calls is not
// known yet, so none is bound.
Status create_local(int size, const unisono_options_t* options, unisono_comm_t* comms) {
  constexpr std::string_view kName = "unisono_comm_create_local";
  if (comms == nullptr) return null_argument(kName, "comms");
  if (size < 1)
    return invalid_argument(fmt::format("{}: size is {}: expected at least 1", kName, size));
  auto creation = read_options(options);
  if (!creation.ok()) return creation.status().in(kName);
  UNISONO_RETURN_IF_ERROR(creation->settings.set("UNISONO_BIND", "none", kName));

  std::vector<std::unique_ptr<Bootstrap>> bootstraps = make_thread_bootstraps(size);
  std::vector<Result<std::unique_ptr<unisono_comm>>> connected;
  for (int rank = 0; rank < size; ++rank)
    connected.emplace_back(Status(StatusCode::kOutOfResources, "no thread for this rank"));
  const auto connect_rank = [&](size_t rank) {
    try {
      connected[rank] = connect(std::move(bootstraps[rank]), *creation);
    } catch (const std::exception& error) {
      connected[rank] = Status(StatusCode::kOutOfResources, error.what());
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(bootstraps.size());
    try {
      for (size_t rank = 1; rank < bootstraps.size(); ++rank)
        threads.emplace_back(connect_rank, rank);
      connect_rank(0);
    } catch (const std::exception&) {
      // The ranks that have a thread see the others leave.
      for (size_t rank = threads.size() + 1; rank < bootstraps.size(); ++rank)
        bootstraps[rank].reset();
      bootstraps[0].reset();
    }
  }
  // The first cause: what a rank says of another that failed is only an echo.
  const Status* failure = nullptr;
  for (const auto& rank : connected)
    if (!rank.ok() && (failure == nullptr || failure->code() == StatusCode::kPeerFailed))
      failure = &rank.status();
  if (failure != nullptr) return failure->in(kName);
  for (size_t rank = 0; rank < connected.size(); ++rank) comms[rank] = connected[rank]->release();
  return Status();
}

Status get_unique_id(const unisono_options_t* options, unisono_unique_id_t* id) {
  constexpr std::string_view kName = "unisono_get_unique_id";
  if (id == nullptr) return null_argument(kName, "id");
  const auto creation = read_options(options);
  if (!creation.ok()) return creation.status().in(kName);
  const auto made = make_unique_id(creation->settings);
  if (!made.ok()) return made.status().in(kName);
  std::ranges::copy(made->bytes, id->bytes);
  return Status();
}

AllGatherFunction callers_all_gather(unisono_all_gather_t all_gather, void* context) {
  return [=](const void* mine, void* all, size_t bytes) {
    const int error = all_gather(context, mine, all, bytes);
    if (error == 0) return Status();
    return Status(StatusCode::kSystem, fmt::format("the caller's all_gather gave error {}", error));
  };
}

}  // namespace
}  // namespace unisono::api

using namespace unisono;       // NOLINT: the C interface lies outside
using namespace unisono::api;  // NOLINT

unisono_status_t unisono_comm_create_from_environment(const unisono_options_t* options,
                                                      unisono_comm_t* comm) {
  return guarded(nullptr, [&] {
    return create("unisono_comm_create_from_environment", options, comm,
                  [](const Settings& settings, Deadline deadline) {
                    return make_process_bootstrap(settings, deadline);
                  });
  });
}

unisono_status_t unisono_get_unique_id(const unisono_options_t* options, unisono_unique_id_t* id) {
  return guarded(nullptr, [&] { return get_unique_id(options, id); });
}

unisono_status_t unisono_comm_create(const unisono_unique_id_t* id, int size, int rank,
                                     const unisono_options_t* options, unisono_comm_t* comm) {
  return guarded(nullptr, [&] {
    constexpr std::string_view kName = "unisono_comm_create";
    if (id == nullptr) return null_argument(kName, "id");
    UniqueId core_id;
    std::ranges::copy(id->bytes, core_id.bytes.begin());
    return create(kName, options, comm, [&](const Settings& settings, Deadline deadline) {
      return make_unique_id_bootstrap(core_id, size, rank, settings, deadline);
    });
  });
}

unisono_status_t unisono_comm_create_from_callback(unisono_all_gather_t all_gather, void* context,
                                                   int size, int rank,
                                                   const unisono_options_t* options,
                                                   unisono_comm_t* comm) {
  return guarded(nullptr, [&] {
    constexpr std::string_view kName = "unisono_comm_create_from_callback";
    if (all_gather == nullptr) return null_argument(kName, "all_gather");
    return create(kName, options, comm, [&](const Settings&, Deadline) {
      return make_callback_bootstrap(rank, size, callers_all_gather(all_gather, context));
    });
  });
}

unisono_status_t unisono_comm_create_local(int size, const unisono_options_t* options,
                                           unisono_comm_t* comms) {
  return guarded(nullptr, [&] { return create_local(size, options, comms); });
}

int unisono_comm_rank(unisono_comm_t comm) {
  return comm == nullptr ? -1 : comm->core->rank();
}
int unisono_comm_size(unisono_comm_t comm) {
  return comm == nullptr ? -1 : comm->core->size();
}

unisono_status_t unisono_comm_abort(unisono_comm_t comm) {
  return guarded(nullptr, [&] {
    if (!is_usable(comm)) return unusable(comm, "unisono_comm_abort");
    comm->core->abort();
    return Status();
  });
}

unisono_status_t unisono_comm_destroy(unisono_comm_t comm) {
  return guarded(nullptr, [&] {
    // In a child, what the core owns is shared with the parent or, as its thread, not there.
    if (comm != nullptr && comm->fork_guard.in_child()) (void)comm->core.release();
    delete comm;
    return Status();
  });
}

const char* unisono_status_string(unisono_status_t status) {
  return name_of(static_cast<StatusCode>(status)).data();  // of a literal
}

const char* unisono_last_error(void) {
  return last_error().c_str();
}

const char* unisono_comm_last_error(unisono_comm_t comm) {
  thread_local ErrorText text;
  text = comm == nullptr ? ErrorText() : comm->error.copy();
  return text.c_str();
}

const char* unisono_version(void) {
  return UNISONO_VERSION;
}
