// SPDX-License-Identifier: Apache-2.0
#include "execute/direct_lane.h"

#include <sched.h>

#include <algorithm>

#include "direct/buffers.h"

namespace unisono {

DirectLane::DirectLane(Transport* transport, int rank)
    : transport_(transport), rank_(rank), memory_(transport != nullptr && transport->one_process()) {
  if (transport == nullptr) return;
  // Zeroed memory is a block: all words and counters at 0, and the first call has sequence 1.
  for (std::byte* const block : transport->mapped_blocks())
    blocks_.push_back(reinterpret_cast<DirectBlock*>(block));
  for (int peer = 0; peer < static_cast<int>(blocks_.size()); ++peer)
    if (peer != rank) peers_.push_back(peer);
}

void DirectLane::start(Call& call, uint32_t sequence, const void* input, void* output) {
  call.begin_direct(sequence, input, output, next_sequence_++, next_turn_, memory_);
  if (next_sequence_ == 0) next_sequence_ = 2;  // 0 is "never", and parity must alternate
  next_turn_ += call.plan().turns;
  if (queue_.empty() && run(call)) return;
  queue_.push_back(&call);
}

void DirectLane::find_neighbours() {
  const int cpu = sched_getcpu();
  if (!exists() || cpu < 0) return;
  const auto mine = static_cast<uint64_t>(cpu) + 1;
  std::atomic<uint64_t>& published = blocks_[static_cast<size_t>(rank_)]->cpu.value;
  if (published.load(std::memory_order_relaxed) != mine) published.store(mine, std::memory_order_relaxed);
  const auto shares = [&](int peer) {
    return blocks_[static_cast<size_t>(peer)]->cpu.value.load(std::memory_order_relaxed) == mine;
  };
  if (std::ranges::is_partitioned(peers_, shares) &&
      std::ranges::count_if(peers_, shares) == static_cast<std::ptrdiff_t>(neighbours_))
    return;
  neighbours_ = peers_.size() - std::ranges::stable_partition(peers_, shares).size();
  if (!queue_.empty()) queue_.front()->look_at_all_peers();
}

bool DirectLane::advance() {
  bool moved = false;
  while (!queue_.empty()) {
    Call& call = *queue_.front();
    const auto before = call.mark();
    const bool ended = run(call);
    moved |= ended || call.failed() || call.mark() != before;
    if (!ended) break;
    queue_.pop_front();
  }
  return moved;
}

// Whether the call has ended; not if it has failed.
bool DirectLane::run(Call& call) {
  call.advance();
  // What follows a published word may be long: those who sleep for it are woken first.
  while (call.take_ring()) {
    transport_->wake_peers();
    if (!call.finished() && !call.failed()) call.advance();
  }
  return call.finished();
}

void DirectLane::abort() {
  if (!queue_.empty() && !memory_.empty()) withdraw_buffers(blocks_, rank_, memory_);
  queue_.clear();
}

}  // namespace unisono
