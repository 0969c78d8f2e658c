// SPDX-License-Identifier: Apache-2.0
// The composition of bootstrap, transports, selection, plans and executor.
#include "communicator/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "algorithms/registry.h"
#include "base/log.h"
#include "communicator/agreement.h"
#include "communicator/binding.h"
#include "communicator/connect.h"
#include "communicator/feedback.h"
#include "communicator/memory.h"
#include "communicator/plan_cache.h"
#include "communicator/policy.h"
#include "execute/executor.h"

namespace unisono {

// A started call and its end. Owned by the communicator until it has been told.
class Request {
 public:
  Request(Call* call, Feedback* feedback) : call_(call), feedback_(feedback) {}
  ~Request() {
    if (feedback_ != nullptr) feedback_->end(call_ == nullptr);
  }
  Call* call_;  // null: given back once it has finished without failure
  Feedback* const feedback_;
  Deadline deadline_ = Deadline::never();  // of test(); runs while nothing moves
};

namespace {

// How long the progress thread sleeps at most while it holds what a starting caller needs.
constexpr std::chrono::microseconds kThreadNap{100};

class CommunicatorImpl final : public Communicator {
 public:
  CommunicatorImpl(std::unique_ptr<Bootstrap> bootstrap, const Settings& settings,
                   const CommunicatorOptions& options, Policy policy, const Agreement& agreement,
                   Connections connections, std::unique_ptr<CallLog> log, std::unique_ptr<Control> control);
  ~CommunicatorImpl() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Status all_reduce(const AllReduceCall& call) override;
  Result<Request*> start(const AllReduceCall& call) override;
  Status test(Request* request) override;
  Status wait(Request* request) override;
  Result<CallPlan> plan(const AllReduceCall& call) const override;
  Result<std::vector<std::string>> all_gather(std::string_view mine) override;
  Result<void*> allocate(size_t bytes) override;
  Status free(void* memory) override;
  void abort() override { executor_.request_abort(); }

 private:
  std::unique_lock<std::mutex> lock() const {
    return thread_.joinable() ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
  }
  Shape shape() const;
  Result<Rules::Match> choose(const AllReduceCall& call) const;
  Result<Rules::Match> choose_algorithm(const AllReduceCall& call) const;
  Result<std::shared_ptr<const Plan>> build_plan(const AllReduceCall& call) const;
  Result<Call*> begin(const AllReduceCall& call);
  Status finish(Call& call, std::unique_lock<std::mutex>& lock);
  void time_out(const Call& call);
  Status check_no_calls();
  void run_thread();

  const std::unique_ptr<Bootstrap> bootstrap_;
  const int rank_, size_;
  const Settings settings_;
  const CommunicatorOptions options_;
  const Policy policy_;
  const std::vector<int> hosts_;
  const bool shared_memory_;
  const std::vector<Channel*> channels_;
  const std::string transport_;
  const std::chrono::nanoseconds timeout_;
  const std::unique_ptr<CallLog> log_;
  const std::unique_ptr<Control> control_;
  Executor executor_;
  PlanCache plans_;
  std::mutex memory_mutex_;
  SymmetricMemory memory_;
  mutable Quantisations quantisations_;
  uint32_t sequence_ = 0;
  std::vector<std::unique_ptr<Request>> requests_;  // started and not yet ended

  // progress=thread only.
  mutable std::mutex mutex_;
  std::condition_variable work_, ended_;
  bool stop_ = false;
  std::thread thread_;
};

CommunicatorImpl::CommunicatorImpl(std::unique_ptr<Bootstrap> bootstrap, const Settings& settings,
                                   const CommunicatorOptions& options, Policy policy, const Agreement& agreement,
                                   Connections connections, std::unique_ptr<CallLog> log,
                                   std::unique_ptr<Control> control)
    : bootstrap_(std::move(bootstrap)),
      rank_(bootstrap_->rank()),
      size_(bootstrap_->size()),
      settings_(settings),
      options_(options),
      policy_(std::move(policy)),
      hosts_(agreement.hosts),
      shared_memory_(connections.shared_memory),
      channels_(std::move(connections.channels)),
      transport_(connections.names.empty() ? "none"
                                           : fmt::format("{}", fmt::join(connections.names, "+"))),
      timeout_(settings.duration(Setting::kTimeout)),
      log_(std::move(log)),
      control_(std::move(control)),
      executor_(std::move(connections.transports),
                wait_policy(agreement.local_ranks, agreement.usable_cpus), *log_, *control_),
      plans_(channels_, executor_.lane().blocks()),
      memory_(rank_, executor_.lane().transport()) {
  if (settings.text(Setting::kProgress) == "thread")
    thread_ = std::thread([this] { run_thread(); });
}

CommunicatorImpl::~CommunicatorImpl() {
  if (thread_.joinable()) {
    {
      const std::lock_guard guard(mutex_);
      stop_ = true;
    }
    work_.notify_one();
    thread_.join();
  }
  // Before the buffers of started calls and the calls themselves go away.
  executor_.leave();
}

void CommunicatorImpl::run_thread() {
  std::unique_lock guard(mutex_);
  while (!stop_) {
    work_.wait(guard, [&] { return stop_ || !executor_.idle(); });
    while (!stop_ && !executor_.idle()) {
      const bool moved = executor_.progress() || executor_.sleep(kThreadNap);
      if (!executor_.check().ok() || executor_.idle() || moved) ended_.notify_all();
      // Lets callers in.
      guard.unlock();
      std::this_thread::yield();
      guard.lock();
    }
  }
}

Shape CommunicatorImpl::shape() const {
  return {.rank = rank_, .size = size_, .servers = options_.servers, .groups = hosts_};
}

// With the codec that the call names.
Result<Rules::Match> CommunicatorImpl::choose(const AllReduceCall& call) const {
  if (call.codec) UNISONO_RETURN_IF_ERROR(supports(*call.codec, call.type, call.op));
  auto match = choose_algorithm(call);
  if (!match.ok() || !call.codec) return match;
  std::string& codec = match->choice.codec;
  const std::string_view named = name_of(*call.codec);
  if (codec != "none" && codec != named)
    return unsupported(fmt::format("the call asks for codec {}, but {} is {}", named,
                                   to_string(match->choice, algorithms()), match->rule));
  codec = named;
  return match;
}

Result<Rules::Match> CommunicatorImpl::choose_algorithm(const AllReduceCall& call) const {
  if (call.choice) return Rules::Match{*call.choice, "forced by the call"};
  if (policy_.forced) return Rules::Match{*policy_.forced, "forced by UNISONO_ALGORITHM"};
  const auto hosts = static_cast<uint64_t>(shape().hosts());
  auto match = policy_.rules.select(
      {call.count * size_of(call.type), static_cast<uint64_t>(size_), hosts, shared_memory_ ? 1u : 0u},
      shape(), {call.type, call.op, call.max_error, call.codec}, quantisations_);
  if (match.ok()) match->rule = fmt::format("rule '{}'", match->rule);
  return match;
}

Result<std::shared_ptr<const Plan>> CommunicatorImpl::build_plan(const AllReduceCall& call) const {
  auto match = choose(call);
  if (!match.ok()) return match.status();
  match->choice = on_hosts(match->choice, shape());
  const Algorithm* algorithm = find_algorithm(match->choice.algorithm);
  if (algorithm == nullptr)
    return unsupported(fmt::format("unknown algorithm '{}'", match->choice.algorithm));
  auto codec = find_codec(match->choice.codec);
  if (!codec.ok()) return codec.status().in(match->rule);
  UNISONO_RETURN_IF_ERROR(supports(*codec, call.type, call.op).in(match->rule));
  PlanRequest request{.algorithm = algorithm,
                      .codec = *codec,
                      .choice = match->choice,
                      .reason = match->rule,
                      .shape = shape(),
                      .count = call.count,
                      .type = call.type,
                      .op = call.op,
                      .layout = call.layout,
                      .slice_bytes = static_cast<size_t>(settings_.integer(Setting::kSliceBytes)),
                      .mapped = executor_.lane().exists() && settings_.text(Setting::kForm) != "schedule",
                      .mapped_buffers = settings_.text(Setting::kForm) == "direct"};
  auto parameters = resolve_parameters(*algorithm, match->choice.parameters);
  if (!parameters.ok()) return parameters.status();
  request.shape.parameters = parameters.take();
  if (request.choice.depth == 0)
    request.choice.depth = static_cast<int>(settings_.integer(Setting::kDepth));
  UNISONO_RETURN_IF_ERROR(algorithm->supports(request.shape)
                              .in(fmt::format("{} ({})", match->choice.algorithm, match->rule)));
  if (match->choice.links != CodecLinks::kAll)
    UNISONO_RETURN_IF_ERROR(
        quantisations_.of(*algorithm, request.shape, *codec, match->choice.links).status());
  return std::make_shared<const Plan>(make_plan(request));
}

Result<Call*> CommunicatorImpl::begin(const AllReduceCall& call) {
  if (const Status& failure = executor_.check(); !failure.ok()) return failure;
  UNISONO_RETURN_IF_ERROR(check_buffers(call));
  if (call.feedback != nullptr)
    UNISONO_RETURN_IF_ERROR(call.feedback->check(*this, call.count, call.op));
  Call* running = plans_.take(call);
  if (running == nullptr) {
    auto built = build_plan(call);
    if (!built.ok()) return built.status();
    running = plans_.insert(call, built.take());
  }
  if (const Plan& plan = running->plan(); plan.codec != nullptr)
    running->set_residuals(call.feedback == nullptr
                               ? Residuals{}
                               : call.feedback->begin(*this, {plan.signature, rank_, size_, plan.divisor}));
  executor_.start(*running, sequence_++, call.input, call.output);
  if (thread_.joinable()) work_.notify_one();
  return running;
}

Status CommunicatorImpl::finish(Call& call, std::unique_lock<std::mutex>& lock) {
  if (!thread_.joinable()) return executor_.wait(call, timeout_);
  const bool ended =
      ended_.wait_for(lock, timeout_, [&] { return call.finished() || !executor_.failure().ok(); });
  if (!ended) time_out(call);
  return call.finished() ? Status() : executor_.failure();
}

void CommunicatorImpl::time_out(const Call& call) {
  executor_.fail(Status(StatusCode::kTimeout, fmt::format("{}: not ended in {}", call.describe_wait(),
                                                          settings_.text(Setting::kTimeout))));
}

Status CommunicatorImpl::all_reduce(const AllReduceCall& call) {
  std::unique_lock guard = lock();
  auto running = begin(call);
  if (!running.ok()) return running.status();
  const Status status = (*running)->finished() ? Status() : finish(**running, guard);
  if (call.feedback != nullptr) call.feedback->end(status.ok());
  if (status.ok()) plans_.give_back(**running);
  return status;
}

Result<Request*> CommunicatorImpl::start(const AllReduceCall& call) {
  const std::unique_lock guard = lock();
  auto running = begin(call);
  if (!running.ok()) return running.status();
  requests_.push_back(std::make_unique<Request>(*running, call.feedback));
  return requests_.back().get();
}

Status CommunicatorImpl::test(Request* request) {
  {
    const std::unique_lock guard = lock();
    if (!request->call_->finished() && executor_.check().ok()) {
      if (!thread_.joinable() && executor_.progress()) request->deadline_ = Deadline::never();
      if (!request->deadline_.runs()) request->deadline_ = Deadline::after(timeout_);
      if (request->deadline_.passed()) time_out(*request->call_);
      if (!request->call_->finished() && executor_.failure().ok()) return Status(StatusCode::kInProgress, {});
    }
  }
  return wait(request);
}

Status CommunicatorImpl::wait(Request* request) {
  std::unique_lock guard = lock();
  const auto owned = std::ranges::find(requests_, request, &std::unique_ptr<Request>::get);
  if (owned == requests_.end())
    return invalid_argument("this request has ended or is another communicator's");
  // A call that has finished stays right whatever happened later.
  const bool works = request->call_->finished() || executor_.check().ok();
  const Status status = request->call_->finished() ? Status()
                        : works                    ? finish(*request->call_, guard)
                                                   : executor_.failure();
  if (status.ok()) plans_.give_back(*std::exchange(request->call_, nullptr));
  std::erase_if(requests_, [&](const auto& r) { return r.get() == request; });
  return status;
}

std::string name_of(const DirectForm* form) {
  return form == nullptr ? "schedule" : std::string(form->name);
}

Result<CallPlan> CommunicatorImpl::plan(const AllReduceCall& call) const {
  const std::unique_lock guard = lock();
  auto built = build_plan(call);
  if (!built.ok()) return built.status();
  const Plan& plan = **built;
  const DirectForm* form = plan.direct;
  if (plan.mapped != nullptr) {
    const DirectMemory& memory = executor_.lane().memory();
    const auto maps = [&](const void* data) {
      return memory.place_of(rank_, static_cast<const std::byte*>(data), plan.bytes()) != DirectMemory::kPrivate;
    };
    if (memory.one_process() || (maps(call.input) && maps(call.output))) form = plan.mapped;
  }
  const Call* const latest = plans_.latest(call);
  return CallPlan{.choice = plan.choice,
                  .reason = plan.reason,
                  .form = name_of(form),
                  .ran = latest == nullptr ? "" : name_of(latest->form()),
                  .transport = transport_,
                  .wire_bytes = plan.wire_bytes(),
                  .slices = plan.slices};
}

Result<std::vector<std::string>> CommunicatorImpl::all_gather(std::string_view mine) {
  {
    // Whoever waits for this rank in a call may learn why.
    const std::unique_lock guard = lock();
    if (!executor_.check().ok()) return executor_.failure();
    log_->begin_gather();
    executor_.make_statement();
  }
  auto gathered = control_->all_gather(mine, Deadline::after(timeout_));
  const std::unique_lock guard = lock();
  log_->end_gather();
  if (gathered.ok() || gathered.status().code() == StatusCode::kInvalidArgument) return gathered;
  if (!executor_.check().ok()) return executor_.failure();
  return gathered;
}

// Peers may wait for what only this rank's progress brings, before they come to do the same.
Status CommunicatorImpl::check_no_calls() {
  const std::unique_lock guard = lock();
  if (executor_.idle()) return Status();
  return invalid_argument("calls have started and not ended: expected none while memory is allocated or freed");
}

Result<void*> CommunicatorImpl::allocate(size_t bytes) {
  if (bytes == 0) return invalid_argument("memory of 0 bytes: expected at least 1");
  const std::lock_guard one_at_a_time(memory_mutex_);
  UNISONO_RETURN_IF_ERROR(check_no_calls());
  const auto block = memory_.allocate(
      bytes, [this](std::string_view mine) { return all_gather(mine); }, Deadline::after(timeout_));
  if (!block.ok()) return block.status();
  const std::unique_lock guard = lock();
  if ((*block)->mapped) executor_.lane().memory().add((*block)->number, (*block)->memory->blocks(), bytes);
  return static_cast<void*>((*block)->mine);
}

Status CommunicatorImpl::free(void* memory) {
  if (memory == nullptr) return Status();
  const std::lock_guard one_at_a_time(memory_mutex_);
  const auto block = memory_.find(memory);
  if (!block.ok()) return block.status();
  UNISONO_RETURN_IF_ERROR(check_no_calls());
  {
    const std::unique_lock guard = lock();
    if (!executor_.check().ok()) {
      memory_.free(**block);
      return Status();
    }
  }
  const Status agreed = memory_.agree_to_free(**block, [this](std::string_view mine) { return all_gather(mine); });
  const std::unique_lock guard = lock();
  // Ranks that have freed different memory would take one for the other.
  if (!agreed.ok() && executor_.check().ok()) executor_.fail(agreed);
  if ((*block)->mapped) executor_.lane().memory().remove((*block)->number);
  memory_.free(**block);
  return agreed;
}

Status check_servers(const CommunicatorOptions& options, int size) {
  int last = -1;
  for (const int server : options.servers) {
    if (server <= last || server >= size)
      return invalid_argument(fmt::format("servers: expected ascending ranks from 0 to {}, got {}",
                                          size - 1, fmt::join(options.servers, ",")));
    last = server;
  }
  if (static_cast<int>(options.servers.size()) == size)
    return invalid_argument(
        fmt::format("servers: all {} ranks are servers: expected one that contributes", size));
  return Status();
}

}  // namespace

Status check_buffers(const AllReduceCall& call) {
  if (call.count == 0) return Status();
  if (call.input == nullptr || call.output == nullptr)
    return invalid_argument(fmt::format("{} is null, with a count of {}",
                                        call.input == nullptr ? "input" : "output", call.count));
  const size_t size = size_of(call.type);
  if (call.count > SIZE_MAX / size)
    return invalid_argument(
        fmt::format("count {} of {} is more than memory can hold", call.count, name_of(call.type)));
  const auto input = reinterpret_cast<uintptr_t>(call.input);
  const auto output = reinterpret_cast<uintptr_t>(call.output);
  const size_t distance = input < output ? output - input : input - output;
  if (distance != 0 && distance < call.count * size)
    return invalid_argument(
        fmt::format("input and output overlap by {} bytes: expected the same buffer or two apart",
                    call.count * size - distance));
  return Status();
}

Result<std::unique_ptr<Communicator>> Communicator::create(std::unique_ptr<Bootstrap> bootstrap,
                                                           const Settings& settings,
                                                           const CommunicatorOptions& options) {
  const Deadline deadline = Deadline::after(settings.duration(Setting::kTimeout));
  const Log log(settings, bootstrap->rank());
  UNISONO_RETURN_IF_ERROR(check_servers(options, bootstrap->size()));
  auto policy = read_policy(settings);
  if (!policy.ok()) return policy.status();
  auto agreement = agree(*bootstrap, settings, options, deadline);
  if (!agreement.ok()) return agreement.status();
  // Before memory is touched, so that it lies near the core.
  UNISONO_RETURN_IF_ERROR(bind_to_core(*agreement, settings, log));
  auto connections = connect_ranks(*bootstrap, settings, log, deadline);
  if (!connections.ok()) return connections.status();
  auto calls = std::make_unique<CallLog>(bootstrap->rank());
  auto control = bootstrap->turn_over(
      {.compare = CallLog::compare, .phase = [log = calls.get()] { return log->phase(); }}, settings,
      deadline);
  if (!control.ok()) return control.status();
  return std::unique_ptr<Communicator>(std::make_unique<CommunicatorImpl>(
      std::move(bootstrap), settings, options, policy.take(), *agreement, connections.take(), std::move(calls),
      control.take()));
}

}  // namespace unisono
