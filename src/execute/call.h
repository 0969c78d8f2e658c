// SPDX-License-Identifier: Apache-2.0
// Call: one running all-reduce of one rank. Runs a plan's steps as their edges and messages allow.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "direct/direct.h"
#include "execute/encoded_space.h"
#include "execute/output_stores.h"
#include "execute/plan.h"
#include "transport/transport.h"

namespace unisono {

// Made once per plan and used again: begin() allocates nothing. One thread at a time.
class Call {
 public:
  // `channels` (mine is null) and `blocks` (empty without mapped memory) are indexed by rank; they and `peers`, the
  // others in the order in which direct forms wait for them, outlive the call.
  Call(std::shared_ptr<const Plan> plan, std::span<Channel* const> channels, std::span<DirectBlock* const> blocks,
       std::span<const int> peers);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // What the next begin() takes along, and changes until the call has finished. Of plan().count each.
  void set_residuals(const Residuals& residuals) { residuals_ = residuals; }

  // Precondition: never begun, or finished without failure.
  void begin(uint32_t sequence, const void* input, void* output);
  // The same for a plan with a direct form, whose calls take turns: see DirectLane.
  void begin_direct(uint32_t sequence, const void* input, void* output, uint32_t direct_sequence,
                    uint64_t first_turn, const DirectMemory& memory);
  // Runs all that can run now; returns without waiting. Called after a transport has progressed.
  void advance();

  bool finished() const { return slices_left_ == 0; }
  bool failed() const { return !status_.ok(); }
  const Status& status() const { return status_; }
  bool wants_to_advance() const { return !queue_.empty(); }
  // Whether peers may sleep for what the last advance() of a direct form has published; asks once.
  bool take_ring() { return std::exchange(direct_.ring, false); }

  bool taken = false;  // by whoever runs it: PlanCache

  // How far a direct form has come; another one after it has got on.
  std::pair<uint32_t, size_t> mark() const { return {direct_.phase, direct_.turn}; }

  // Of a direct form: the first of the peers that it waits for.
  size_t awaited() const { return direct_.peer; }
  // The peers have another order now.
  void look_at_all_peers() { direct_.peer = 0; }

  const Plan& plan() const { return *plan_; }
  // The direct form that ran the call, once it has finished; null: the schedule did.
  const DirectForm* form() const { return form_; }
  uint32_t sequence() const { return sequence_; }
  // "call 7, all_reduce of 4096 bytes by ring: step 3 waits for 512 bytes from rank 2"
  std::string describe_wait() const;

 private:
  struct Message : ViewCompletion {
    Call* call = nullptr;
    uint32_t context = 0;
    uint32_t step = 0;
    bool ended = false;
  };
  struct StepState {
    Plan::Waits left;
    bool posted;
  };
  // A thing to do: issue a step (post its messages), or finish one that waits for nothing more.
  struct Task {
    uint32_t context;
    uint32_t step;
    bool issue;
  };

  bool choose_form();
  void use(const DirectForm& form);
  void end_direct();
  void advance_direct();
  static void on_done(Completion& completion, Status status);

  void start_slice(uint32_t context, size_t slice);
  void issue(uint32_t context, uint32_t step);
  void finish(uint32_t context, uint32_t step);
  void fold(uint32_t context, const Step& step);
  void fold_encoded(uint32_t context, const Step& step);
  size_t message_bytes(uint32_t context, const Step& step, const PeerMessage& peer) const;
  void meet(uint32_t& left, uint32_t by, Task task);

  StepState& state(uint32_t context, uint32_t step) {
    return states_[context * plan_->schedule.steps.size() + step];
  }
  std::span<Message> messages(uint32_t context, const Step& step) {
    return std::span(messages_).subspan(context * plan_->schedule.peers.size() + step.first_peer,
                                        step.peer_count);
  }
  std::byte* address(Place place, size_t element) const;
  // Where a step's message begins or ends.
  std::byte* message_address(uint32_t context, const Step& step, Place place);

  const std::shared_ptr<const Plan> plan_;
  const std::span<Channel* const> channels_;
  uint32_t sequence_ = 0;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  size_t next_slice_ = 0;
  size_t slices_left_ = 0;
  Status status_;
  std::vector<size_t> slice_of_;       // per context
  std::vector<uint32_t> steps_left_;   // per context
  std::vector<StepState> states_;      // contexts × steps
  std::vector<Message> messages_;      // contexts × peers of all steps
  std::vector<Task> queue_;            // a stack; room for every step of every context
  std::vector<const void*> operands_;  // of one fold
  EncodedSpace encoded_;
  std::vector<EncodedSpace::Operand> encoded_operands_;  // of one fold
  Residuals residuals_;
  DirectCall direct_;                  // where the plan has a direct form
  const DirectForm* form_ = nullptr;   // that runs it; null until all ranks' buffers are known
  OutputStores stores_, mapped_stores_;  // of form_, without and with mapped buffers
  OutputStores* measured_ = nullptr;   // which of them wants to know how long this call takes; null: neither
  std::chrono::steady_clock::time_point begun_;  // if so
};

}  // namespace unisono
