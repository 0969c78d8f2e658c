// SPDX-License-Identifier: Apache-2.0
// The one loop that runs a schedule.
#include "execute/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "direct/buffers.h"
#include "kernels/move.h"

namespace unisono {

Call::Call(std::shared_ptr<const Plan> plan, std::span<Channel* const> channels,
           std::span<DirectBlock* const> blocks, std::span<const int> peers)
    : plan_(std::move(plan)),
      channels_(channels),
      encoded_(*plan_),
      stores_(plan_->bytes(), core_cache_bytes()),
      mapped_stores_(plan_->bytes(), core_cache_bytes()) {
  const Schedule& schedule = plan_->schedule;
  if (plan_->direct != nullptr) {
    direct_ = {.rank = schedule.rank,
               .count = plan_->count,
               .element_size = plan_->element_size(),
               .finish = plan_->finish,
               .spread = plan_->spread,
               .divisor = plan_->divisor,
               .blocks = blocks,
               .peers = peers,
               .signature = plan_->signature};
    return;
  }
  slice_of_.resize(plan_->depth);
  steps_left_.resize(plan_->depth);
  states_.resize(plan_->depth * schedule.steps.size());
  messages_.resize(plan_->depth * schedule.peers.size());
  queue_.reserve(2 * states_.size());
  size_t most_operands = 1;
  for (uint32_t context = 0; context < plan_->depth; ++context) {
    for (uint32_t step = 0; step < schedule.steps.size(); ++step) {
      most_operands = std::max<size_t>(most_operands, schedule.steps[step].peer_count + 1);
      for (Message& message : messages(context, schedule.steps[step])) {
        message.done = on_done;
        message.call = this;
        message.context = context;
        message.step = step;
      }
    }
  }
  operands_.reserve(most_operands);
  if (plan_->codec != nullptr) encoded_operands_.reserve(most_operands + 1);
}

void Call::begin(uint32_t sequence, const void* input, void* output) {
  assert(finished() && !failed());
  sequence_ = sequence;
  input_ = static_cast<const std::byte*>(input);
  output_ = static_cast<std::byte*>(output);
  next_slice_ = 0;
  slices_left_ = plan_->slices;
  for (uint32_t context = 0; context < plan_->depth && next_slice_ < plan_->slices; ++context)
    start_slice(context, next_slice_++);
  advance();
}

void Call::begin_direct(uint32_t sequence, const void* input, void* output, uint32_t direct_sequence,
                        uint64_t first_turn, const DirectMemory& memory) {
  assert(finished() && !failed());
  sequence_ = sequence;
  slices_left_ = 1;
  direct_.sequence = direct_sequence;
  direct_.first_turn = first_turn;
  direct_.input = static_cast<const std::byte*>(input);
  direct_.output = static_cast<std::byte*>(output);
  direct_.memory = &memory;
  direct_.phase = 0;
  direct_.turn = 0;
  direct_.peer = 0;
  form_ = nullptr;
}

void Call::use(const DirectForm& form) {
  form_ = &form;
  OutputStores& stores = &form == plan_->mapped ? mapped_stores_ : stores_;
  const bool in_place = direct_.input == direct_.output;
  direct_.streams = !in_place && stores.stream();
  measured_ = !in_place && stores.measures() ? &stores : nullptr;
  if (measured_ != nullptr) begun_ = std::chrono::steady_clock::now();
}

void Call::end_direct() {
  slices_left_ = 0;
  if (measured_ != nullptr) measured_->note(std::chrono::steady_clock::now() - begun_);
}

// Sets form_ once all ranks can know it. They see the same, so they choose the same.
bool Call::choose_form() {
  if (plan_->mapped == nullptr || direct_.memory->empty()) {
    use(*plan_->direct);
    return true;
  }
  const Buffers buffers = find_buffers(direct_);
  if (buffers == Buffers::kUnknown) return false;
  use(buffers == Buffers::kMapped ? *plan_->mapped : *plan_->direct);
  direct_.phase = 0;
  direct_.peer = 0;
  return true;
}

void Call::advance_direct() {
  // Who sleeps for my entry is woken first: what follows may be long.
  const bool waits = form_ == nullptr && (!choose_form() || direct_.ring);
  if (!waits && form_->advance(direct_)) end_direct();
  if (!finished() && direct_.mismatched >= 0) {
    status_ = Status(StatusCode::kMismatch,
                     fmt::format("{}: rank {} makes another call", describe_wait(), direct_.mismatched));
  }
}

void Call::start_slice(uint32_t context, size_t slice) {
  const Schedule& schedule = plan_->schedule;
  slice_of_[context] = slice;
  if (plan_->codec != nullptr) encoded_.start_slice(context, slice);
  steps_left_[context] = static_cast<uint32_t>(schedule.steps.size());
  // Backwards, since the queue is a stack: the first step of the program runs first.
  for (auto step = static_cast<uint32_t>(schedule.steps.size()); step-- > 0;) {
    state(context, step) = {plan_->waits[step], false};
    if (plan_->waits[step].to_post == 0) queue_.push_back({context, step, true});
  }
}

// One of the waits in `left` is over for `by`; at the last one, `task` can be done.
void Call::meet(uint32_t& left, uint32_t by, Task task) {
  left -= by;
  if (left == 0) queue_.push_back(task);
}

void Call::advance() {
  if (plan_->direct != nullptr) return advance_direct();
  while (!queue_.empty() && !failed()) {
    const Task task = queue_.back();
    queue_.pop_back();
    if (task.issue) {
      issue(task.context, task.step);
    } else {
      finish(task.context, task.step);
    }
  }
}

std::byte* Call::address(Place place, size_t element) const {
  const size_t offset = element * plan_->element_size();
  // The input is never written through this pointer: no step has it as its target.
  return (place.space == Space::kInput ? const_cast<std::byte*>(input_) : output_) + offset;
}

std::byte* Call::message_address(uint32_t context, const Step& step, Place place) {
  if (place.space == Space::kEncoded) return encoded_.address(context, place, step.chunks);
  return address(place, plan_->elements(step.chunks, slice_of_[context]).begin);
}

size_t Call::message_bytes(uint32_t context, const Step& step, const PeerMessage& peer) const {
  if (peer.encoded) return encoded_.bytes(context, step.chunks);
  return plan_->elements(step.chunks, slice_of_[context]).count() * plan_->element_size();
}

void Call::issue(uint32_t context, uint32_t index) {
  const Step& step = plan_->schedule.steps[index];
  StepState& mine = state(context, index);
  mine.posted = true;
  if (step.peer_count == 0) return finish(context, index);
  // An empty chunk moves nothing; all ranks see the same geometry.
  if (plan_->elements(step.chunks, slice_of_[context]).count() == 0)
    return meet(mine.left.to_end, step.peer_count, {context, index, false});
  const std::span<const PeerMessage> peers = plan_->schedule.peers_of(step);
  const std::span<Message> posts = messages(context, step);
  for (Message& post : posts) post.ended = false;
  for (size_t i = 0; i < peers.size() && !failed(); ++i) {
    Channel& channel = *channels_[peers[i].rank];
    const size_t bytes = message_bytes(context, step, peers[i]);
    const Key key{sequence_, peers[i].message, static_cast<uint32_t>(slice_of_[context]),
                  plan_->signature};
    switch (step.kind) {
      case StepKind::kSend:
        channel.post_send(key, message_address(context, step, step.source), bytes, posts[i]);
        break;
      case StepKind::kRecv:
        channel.post_recv(key, message_address(context, step, step.target), bytes, posts[i]);
        break;
      case StepKind::kRecvReduce:
        channel.post_view(key, bytes, posts[i]);
        break;
      default:
        assert(false && "a step without messages");
    }
  }
}

void Call::on_done(Completion& completion, Status status) {
  auto& message = static_cast<Message&>(completion);
  Call& call = *message.call;
  message.ended = true;
  if (status.ok()) {
    call.meet(call.state(message.context, message.step).left.to_end, 1,
              {message.context, message.step, false});
  } else if (!call.failed()) {
    call.status_ = std::move(status);
  }
}

// Everything that the step waits for is over: do its work on memory, and free its successors.
void Call::finish(uint32_t context, uint32_t index) {
  const Schedule& schedule = plan_->schedule;
  const Step& step = schedule.steps[index];
  const ElementRange range = plan_->elements(step.chunks, slice_of_[context]);
  if (range.count() > 0 && step.kind == StepKind::kRecvReduce) {
    plan_->codec == nullptr ? fold(context, step) : fold_encoded(context, step);
    if (failed()) return;
  } else if (step.kind == StepKind::kEncode) {
    encoded_.encode(context, step, address(step.source, 0), residuals_);
  } else if (step.kind == StepKind::kDecode) {
    encoded_.decode(context, step, address(step.target, 0));
  } else if (step.kind == StepKind::kCopy && address(step.source, 0) != address(step.target, 0)) {
    std::memcpy(address(step.target, range.begin), address(step.source, range.begin),
                range.count() * plan_->element_size());
  }
  for (uint32_t i = plan_->first_successor[index]; i < plan_->first_successor[index + 1]; ++i) {
    const uint32_t next = plan_->successors[i];
    const bool delays_end = plan_->delays_only_the_end(step, schedule.steps[next]);
    Plan::Waits& left = state(context, next).left;
    meet(delays_end ? left.to_end : left.to_post, 1, {context, next, !delays_end});
  }
  if (--steps_left_[context] > 0) return;
  --slices_left_;
  if (next_slice_ < plan_->slices) start_slice(context, next_slice_++);
}

void Call::fold(uint32_t context, const Step& step) {
  const ElementRange range = plan_->elements(step.chunks, slice_of_[context]);
  const std::span<const PeerMessage> peers = plan_->schedule.peers_of(step);
  const std::span<Message> views = messages(context, step);
  operands_.clear();
  bool mine_waits = step.source.space != Space::kNone;
  for (size_t i = 0; i < peers.size(); ++i) {
    if (mine_waits && peers[i].rank > plan_->schedule.rank) {
      operands_.push_back(address(step.source, range.begin));
      mine_waits = false;
    }
    operands_.push_back(views[i].data);
  }
  if (mine_waits) operands_.push_back(address(step.source, range.begin));
  const ReduceKernel kernel = step.finishes ? plan_->finish : plan_->reduce;
  kernel(address(step.target, range.begin), operands_.data(), operands_.size(), range.count(),
         step.finishes ? plan_->divisor : 1);
  for (size_t i = 0; i < peers.size(); ++i) channels_[peers[i].rank]->release(views[i]);
}

// The same where messages may be encoded, and a residual joins in.
void Call::fold_encoded(uint32_t context, const Step& step) {
  const std::span<const PeerMessage> peers = plan_->schedule.peers_of(step);
  const std::span<Message> views = messages(context, step);
  const ElementRange range = plan_->elements(step.chunks, slice_of_[context]);
  float* const residual = step.residual == Residual::kNone ? nullptr : residuals_.worker;
  encoded_operands_.clear();
  const auto add_mine = [&] {
    if (step.source.space != Space::kNone)
      encoded_operands_.push_back({address(step.source, 0), false});
    if (residual != nullptr) encoded_operands_.push_back({residual, false});
  };
  const auto above = std::ranges::partition_point(
      peers, [&](const PeerMessage& peer) { return peer.rank < plan_->schedule.rank; });
  for (auto peer = peers.begin(); peer != peers.end(); ++peer) {
    if (peer == above) add_mine();
    const Message& view = views[static_cast<size_t>(peer - peers.begin())];
    encoded_operands_.push_back({view.data, peer->encoded, range.begin});
  }
  if (above == peers.end()) add_mine();
  encoded_.fold(context, step, address(step.target, 0), encoded_operands_);
  if (residual != nullptr) std::fill_n(residual + range.begin, range.count(), 0.0f);
  for (size_t i = 0; i < peers.size(); ++i) channels_[peers[i].rank]->release(views[i]);
}

std::string Call::describe_wait() const {
  const Schedule& schedule = plan_->schedule;
  const std::string call =
      fmt::format("call {}, {} of {} bytes by {}", sequence_, name_of(schedule.collective),
                  plan_->bytes(), plan_->choice.algorithm);
  if (plan_->direct != nullptr)
    return fmt::format("{} ({}): waits for rank {}", call, (form_ != nullptr ? form_ : plan_->direct)->name,
                       direct_.peers[std::min(direct_.peer, direct_.peers.size() - 1)]);
  for (uint32_t context = 0; context < plan_->depth; ++context) {
    for (uint32_t index = 0; index < schedule.steps.size(); ++index) {
      const StepState& state = states_[context * schedule.steps.size() + index];
      if (!state.posted || state.left.to_end == 0) continue;
      const Step& step = schedule.steps[index];
      const size_t first = context * schedule.peers.size() + step.first_peer;
      for (uint32_t i = 0; i < step.peer_count; ++i) {
        if (messages_[first + i].ended) continue;
        const PeerMessage& peer = schedule.peers[step.first_peer + i];
        return fmt::format(
            "{}: slice {} of {}, step {} waits {} rank {} ({} bytes)", call, slice_of_[context],
            plan_->slices, index, step.kind == StepKind::kSend ? "to send to" : "for",
            peer.rank, message_bytes(context, step, peer));
      }
    }
  }
  return call;
}

}  // namespace unisono
