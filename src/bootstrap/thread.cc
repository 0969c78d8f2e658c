// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process: they meet in a room behind a mutex.
#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "bootstrap/bootstrap.h"
#include "bootstrap/judge.h"
#include "bootstrap/rank_list.h"
#include "bootstrap/token.h"

namespace unisono {
namespace {

// A thread's end of the control channel: everything is a word in the room.
class RoomControl;

// Shared by the ranks; the last one to leave frees it.
class Room {
 public:
  explicit Room(int size)
      : slots_(static_cast<size_t>(size)),
        controls_(static_cast<size_t>(size)),
        token_(random_token()) {}

  int size() const { return static_cast<int>(slots_.size()); }
  const std::string& token() const { return token_; }

  Result<std::vector<std::string>> all_gather(int rank, std::string_view mine, Deadline deadline) {
    if (mine.size() > kMaxGatherBytes)
      return invalid_argument(fmt::format("all_gather: expected at most {} bytes, got {}",
                                          kMaxGatherBytes, mine.size()));
    std::unique_lock lock(mutex_);
    if (failure_.ok() && !ranks_where(&Slot::left).empty()) fail_with_leavers();
    if (!failure_.ok()) return failure_;
    Slot& slot = slots_[static_cast<size_t>(rank)];
    slot.bytes = mine;
    slot.here = true;
    if (++arrived_ == slots_.size()) {
      complete();
      return gathered_;
    }
    const uint64_t round = round_;
    // Nobody can start the round after the next one before this rank has seen the end of this one.
    const auto ended = [&] { return round_ != round || !failure_.ok(); };
    if (!changed_.wait_for(lock, deadline.left(), ended)) fail_with_missing();
    if (round_ != round) return gathered_;
    return failure_;
  }

  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    slots_[static_cast<size_t>(rank)].left = true;
    if (arrived_ != 0 && failure_.ok()) fail_with_leavers();
  }

  // A rank's control channel comes and goes.
  void attach(int rank, RoomControl* control, const ControlOptions& options);
  void detach(int rank);
  void hear(int rank, Word word, const Status& cause, std::string statement);

 private:
  struct Slot {
    std::string bytes;
    bool here = false;
    bool left = false;
  };

  std::vector<int> ranks_where(bool Slot::*flag, bool value = true) const {
    std::vector<int> ranks;
    for (size_t rank = 0; rank < slots_.size(); ++rank)
      if (slots_[rank].*flag == value) ranks.push_back(static_cast<int>(rank));
    return ranks;
  }

  void complete() {
    gathered_.clear();
    for (Slot& slot : slots_) {
      gathered_.push_back(std::move(slot.bytes));
      slot.here = false;
    }
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
  }

  void settle();
  void fail(Status status);
  void fail_with_leavers() {
    fail(Status(StatusCode::kPeerFailed,
                fmt::format("all_gather: {} left", rank_list(ranks_where(&Slot::left)))));
  }
  void fail_with_missing() {
    fail(Status(StatusCode::kTimeout,
                fmt::format("all_gather: {} of {} did not come in time",
                            rank_list(ranks_where(&Slot::here, false)), size())));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  size_t arrived_ = 0;
  uint64_t round_ = 0;
  std::vector<std::string> gathered_;  // of the last complete round
  Status failure_;
  std::optional<Judge> judge_;
  std::vector<RoomControl*> controls_;  // by rank; null before and after
  bool asked_ = false;
  const std::string token_;
};

class RoomControl final : public Control {
 public:
  RoomControl(std::shared_ptr<Room> room, int rank, const ControlOptions& options)
      : room_(std::move(room)), rank_(rank) {
    room_->attach(rank, this, options);
  }
  ~RoomControl() override { room_->detach(rank_); }

  void leave(std::string statement) override {
    room_->hear(rank_, Word::kLeaves, Status(), std::move(statement));
    room_->leave(rank_);
  }
  Result<std::vector<std::string>> all_gather(std::string_view mine, Deadline deadline) override {
    return room_->all_gather(rank_, mine, deadline);
  }

 protected:
  void tell(Word word, const Status& cause, std::string statement) override {
    room_->hear(rank_, word, cause, std::move(statement));
  }

 private:
  friend class Room;  // asks and decides

  const std::shared_ptr<Room> room_;
  const int rank_;
};

void Room::attach(int rank, RoomControl* control, const ControlOptions& options) {
  const std::lock_guard lock(mutex_);
  // The first rank's own words on its phase would not outlive it.
  if (!judge_)
    judge_.emplace(size(), ControlOptions{options.compare, [] { return "all in one process"; }});
  controls_[static_cast<size_t>(rank)] = control;
  if (asked_) control->ask();
  if (!failure_.ok()) control->decide(failure_);
}

void Room::detach(int rank) {
  const std::lock_guard lock(mutex_);
  controls_[static_cast<size_t>(rank)] = nullptr;
  judge_->hear_end(rank, "its communicator was not destroyed in order");
  settle();
}

void Room::hear(int rank, Word word, const Status& cause, std::string statement) {
  const std::lock_guard lock(mutex_);
  judge_->hear(rank, word, cause, std::move(statement));
  settle();
  if (word != Word::kSuspicion && word != Word::kLeaves) return;
  asked_ = true;
  for (size_t other = 0; other < controls_.size(); ++other)
    if (static_cast<int>(other) != rank && controls_[other] != nullptr) controls_[other]->ask();
}

void Room::settle() {
  if (!judge_->verdict().ok() && failure_.ok()) fail(judge_->verdict());
}

void Room::fail(Status status) {
  failure_ = std::move(status);
  changed_.notify_all();
  for (RoomControl* const control : controls_)
    if (control != nullptr) control->decide(failure_);
}

class ThreadBootstrap final : public Bootstrap {
 public:
  ThreadBootstrap(std::shared_ptr<Room> room, int rank) : room_(std::move(room)), rank_(rank) {}
  ~ThreadBootstrap() override {
    if (!turned_over_) room_->leave(rank_);
  }

  int rank() const override { return rank_; }
  int size() const override { return room_->size(); }
  std::string job_token() const override { return room_->token(); }
  Result<std::vector<std::string>> all_gather(std::string_view mine, Deadline deadline) override {
    return room_->all_gather(rank_, mine, deadline);
  }
  Result<std::unique_ptr<Control>> turn_over(const ControlOptions& options, const Settings&,
                                             Deadline) override {
    turned_over_ = true;
    return std::unique_ptr<Control>(std::make_unique<RoomControl>(room_, rank_, options));
  }

 private:
  const std::shared_ptr<Room> room_;
  const int rank_;
  bool turned_over_ = false;
};

}  // namespace

std::vector<std::unique_ptr<Bootstrap>> make_thread_bootstraps(int size) {
  const auto room = std::make_shared<Room>(size);
  std::vector<std::unique_ptr<Bootstrap>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<ThreadBootstrap>(room, rank));
  return ranks;
}

}  // namespace unisono
