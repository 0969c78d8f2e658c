// SPDX-License-Identifier: Apache-2.0
// How calls run: planner, cached plans, executor; by the caller's thread or one of its own.
#include "communicator/communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "communicator/feedback.h"
#include "communicator/memory.h"
#include "communicator/parts.h"
#include "communicator/plan_cache.h"
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
  explicit CommunicatorImpl(CommunicatorParts parts);
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
  const DirectForm* form_of(const Plan& plan, const AllReduceCall& call) const;
  Result<Call*> begin(const AllReduceCall& call);
  Status finish(Call& call, std::unique_lock<std::mutex>& lock);
  void time_out(const Call& call);
  Status check_no_calls();
  void run_thread();

  const std::unique_ptr<Bootstrap> bootstrap_;
  const int rank_, size_;
  const Settings settings_;
  const std::vector<Channel*> channels_;
  const std::string transport_;
  const std::chrono::nanoseconds timeout_;
  const std::unique_ptr<CallLog> log_;
  const std::unique_ptr<Control> control_;
  Executor executor_;
  const Planner planner_;
  PlanCache plans_;
  std::mutex memory_mutex_;
  SymmetricMemory memory_;
  uint32_t sequence_ = 0;
  std::vector<std::unique_ptr<Request>> requests_;  // started and not yet ended

  // progress=thread only.
  mutable std::mutex mutex_;
  std::condition_variable work_, ended_;
  bool stop_ = false;
  std::thread thread_;
};

CommunicatorImpl::CommunicatorImpl(CommunicatorParts parts)
    : bootstrap_(std::move(parts.bootstrap)),
      rank_(bootstrap_->rank()),
      size_(bootstrap_->size()),
      settings_(std::move(parts.settings)),
      channels_(std::move(parts.connections.channels)),
      transport_(parts.connections.names.empty() ? "none"
                                                 : fmt::format("{}", fmt::join(parts.connections.names, "+"))),
      timeout_(settings_.duration(Setting::kTimeout)),
      log_(std::move(parts.log)),
      control_(std::move(parts.control)),
      executor_(std::move(parts.connections.transports),
                wait_policy(parts.agreement.local_ranks, parts.agreement.usable_cpus), *log_, *control_),
      planner_(settings_, std::move(parts.policy),
               {.shape = {.rank = rank_,
                          .size = size_,
                          .servers = std::move(parts.servers),
                          .groups = std::move(parts.agreement.hosts)},
                .shared_memory = parts.connections.shared_memory,
                .direct_forms = executor_.lane().exists()}),
      plans_(channels_, executor_.lane().blocks(), executor_.lane().peers()),
      memory_(rank_, executor_.lane().transport(), executor_.lane().memory(),
              [this](std::string_view mine) { return all_gather(mine); }) {
  if (settings_.text(Setting::kProgress) == "thread")
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

Result<Call*> CommunicatorImpl::begin(const AllReduceCall& call) {
  if (const Status& failure = executor_.check(); !failure.ok()) return failure;
  UNISONO_RETURN_IF_ERROR(check_buffers(call));
  if (call.feedback != nullptr)
    UNISONO_RETURN_IF_ERROR(call.feedback->check(*this, call.count, call.op));
  Call* running = plans_.take(call);
  if (running == nullptr) {
    auto built = planner_.plan(call);
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

// Null: the schedule.
const DirectForm* CommunicatorImpl::form_of(const Plan& plan, const AllReduceCall& call) const {
  if (plan.mapped == nullptr) return plan.direct;
  const DirectMemory& memory = executor_.lane().memory();
  const auto maps = [&](const void* data) {
    return memory.place_of(rank_, static_cast<const std::byte*>(data), plan.bytes()) != DirectMemory::kPrivate;
  };
  return memory.one_process() || (maps(call.input) && maps(call.output)) ? plan.mapped : plan.direct;
}

Result<CallPlan> CommunicatorImpl::plan(const AllReduceCall& call) const {
  const std::unique_lock guard = lock();
  const auto built = planner_.plan(call);
  if (!built.ok()) return built.status();
  const Plan& plan = **built;
  const Call* const latest = plans_.latest(call);
  return CallPlan{.choice = plan.choice,
                  .reason = plan.reason,
                  .form = name_of(form_of(plan, call)),
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
  auto block = memory_.make(bytes, Deadline::after(timeout_));
  if (!block.ok()) return block.status();
  const std::unique_lock guard = lock();
  return static_cast<void*>(memory_.keep(block.take()));
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
      memory_.remove(**block);
      return Status();
    }
  }
  const Status agreed = memory_.agree_to_remove(**block);
  const std::unique_lock guard = lock();
  // Ranks that have freed different memory would take one for the other.
  if (!agreed.ok() && executor_.check().ok()) executor_.fail(agreed);
  memory_.remove(**block);
  return agreed;
}

}  // namespace

std::unique_ptr<Communicator> assemble(CommunicatorParts parts) {
  return std::make_unique<CommunicatorImpl>(std::move(parts));
}

}  // namespace unisono
