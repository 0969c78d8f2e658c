// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/engine.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <cstring>

#include "transports/ucx/configuration.h"

namespace unisono {
namespace {

constexpr size_t kPostsPerBlock = 64;

// UCX's own thread inherits this mask: the host's signals go to the host's threads.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &previous_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t previous_;
};

}  // namespace

Status ucx_error(std::string_view what, ucs_status_t status) {
  const bool resources = status == UCS_ERR_NO_MEMORY || status == UCS_ERR_NO_RESOURCE ||
                         status == UCS_ERR_EXCEEDS_LIMIT;
  return Status(resources ? StatusCode::kOutOfResources : StatusCode::kSystem,
                fmt::format("{}: {}", what, ucs_status_string(status)));
}

std::recursive_mutex& descriptor_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

Status peer_failed(int peer, ucs_status_t status) {
  return Status(StatusCode::kPeerFailed, fmt::format("rank {} died or cannot be reached: {}", peer,
                                                     ucs_status_string(status)));
}

uint64_t Engine::client_id() const {
  uint64_t id = 0;
  std::memcpy(&id, token.data(), sizeof(id));
  return id;
}

void PostPool::grow() {
  blocks_.push_back(std::make_unique<Post[]>(kPostsPerBlock));
  for (size_t i = 0; i < kPostsPerBlock; ++i) give_back(blocks_.back()[i]);
}

Status Engine::open(const Settings& settings) {
  const BlockedSignals blocked;
  const std::lock_guard lock(descriptor_mutex());
  Result<UcxConfiguration> configuration = read_configuration(settings);
  if (!configuration.ok()) return configuration.status();

  ucp_params_t parameters = {};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_TAG_SENDER_MASK |
                          UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME;
  parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  parameters.tag_sender_mask = tags.tag(TagLayout::kMaxSize - 1, {}) & tags.match_mask();
  parameters.name = "unisono";
  ucs_status_t status = ucp_init(&parameters, configuration->get(), &context);
  if (status != UCS_OK) return ucx_error("ucx cannot start", status);

  ucp_worker_params_t worker_parameters = {};
  worker_parameters.field_mask =
      UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_CLIENT_ID;
  worker_parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  worker_parameters.client_id = client_id();
  status = ucp_worker_create(context, &worker_parameters, &worker);
  if (status != UCS_OK) {
    const std::string& ports = settings.text(Setting::kPortRange);
    return ucx_error(ports.empty() ? "ucx cannot start a worker"
                                   : fmt::format("ucx cannot listen on ports {}", ports),
                     status);
  }
  status = ucp_worker_get_efd(worker, &event_fd);
  if (status != UCS_OK) return ucx_error("ucx has no event descriptor", status);
  return Status();
}

void Engine::sleep(std::chrono::nanoseconds longest) {
  if (longest <= std::chrono::nanoseconds(0)) return;
  if (ucp_worker_arm(worker) != UCS_OK) return;  // something has arrived already
  const timespec limit = {.tv_sec = longest.count() / 1'000'000'000,
                          .tv_nsec = longest.count() % 1'000'000'000};
  pollfd event = {.fd = event_fd, .events = POLLIN, .revents = 0};
  ::ppoll(&event, 1, &limit, nullptr);  // a signal ends it early: no harm
}

Engine::~Engine() {
  const std::lock_guard lock(descriptor_mutex());
  if (worker != nullptr) ucp_worker_destroy(worker);
  if (context != nullptr) ucp_cleanup(context);
}

}  // namespace unisono
