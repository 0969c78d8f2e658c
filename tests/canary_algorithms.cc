// SPDX-License-Identifier: Apache-2.0
#include "canary_algorithms.h"

#include "algorithms/patterns.h"
#include "algorithms/registry.h"

namespace unisono {
namespace {

Schedule proven(std::string_view algorithm, const Shape& shape) {
  return find_algorithm(algorithm)->build(shape);
}

// Recursive doubling on a circle, which counts some ranks twice unless p is a power of two.
Schedule double_count(const Shape& shape) {
  Builder b(shape, 1);
  for (int distance = 1; distance < shape.size; distance *= 2) {
    b.send(shape.neighbour(+distance), chunk(0));
    b.recv_reduce(shape.neighbour(-distance), chunk(0), finish_if(2 * distance >= shape.size));
  }
  return std::move(b).build();
}

// A ring whose all-gather is one round short.
Schedule missing_chunk(const Shape& shape) {
  const int p = shape.size, next = shape.neighbour(+1), previous = shape.neighbour(-1);
  Builder b(shape, p);
  for (int round = 0; round < p - 1; ++round) {
    b.send(next, chunk(shape.neighbour(-round)));
    b.recv_reduce(previous, chunk(shape.neighbour(-round - 1)), finish_if(round == p - 2));
  }
  for (int round = 0; round < p - 2; ++round) {
    b.send(next, chunk(shape.neighbour(1 - round)));
    b.recv(previous, chunk(shape.neighbour(-round)));
  }
  return std::move(b).build();
}

// Everyone adds its predecessor's sum before it sends its own: who begins?
Schedule circular_wait(const Shape& shape) {
  Builder b(shape, 1);
  b.recv_reduce(shape.neighbour(-1), chunk(0), Finish::kNo);
  b.send(shape.neighbour(+1), chunk(0));
  return std::move(b).build();
}

// Everyone passes its vector on and receives into the same place: the sends must end first, and
// they end only when the receives are posted. Right only over channels with unlimited buffers.
Schedule send_into_full_ring(const Shape& shape) {
  Builder b(shape, 1);
  b.send(shape.neighbour(+1), chunk(0));
  b.recv(shape.neighbour(-1), chunk(0));
  return std::move(b).build();
}

Schedule ring_without_edges(const Shape& shape) {
  Schedule schedule = proven("ring", shape);
  if (shape.rank == 1)
    for (Step& step : schedule.steps) step.after_count = 0;
  return schedule;
}

// Rank 1 takes rank 0's vector first, all others add in one pass.
Schedule different_orders(const Shape& shape) {
  if (shape.rank != 1) return proven("one_shot", shape);
  std::vector<int> rest = other_ranks(shape);
  rest.erase(rest.begin());
  Builder b(shape, 1);
  b.send(other_ranks(shape), chunk(0));
  b.recv_reduce(0, chunk(0), Finish::kNo);
  b.recv_reduce(rest, chunk(0), Finish::kYes);
  return std::move(b).build();
}

Schedule finished_too_early(const Shape& shape) {
  Schedule schedule = proven("ring", shape);
  schedule.steps[1].finishes = true;
  return schedule;
}

Schedule never_finished(const Shape& shape) {
  Schedule schedule = proven("one_shot", shape);
  for (Step& step : schedule.steps) step.finishes = false;
  return schedule;
}

Schedule other_chunk(const Shape& shape) {
  Schedule schedule = proven("ring", shape);
  if (shape.rank == 2) schedule.steps[0].chunks.first = 0;
  return schedule;
}

Schedule never_received(const Shape& shape) {
  Builder b(shape, 1);
  if (shape.rank == 0) b.send(1, chunk(0));
  return std::move(b).build();
}

Schedule never_sent(const Shape& shape) {
  Builder b(shape, 1);
  if (shape.rank == 0) b.recv(2, chunk(0));
  return std::move(b).build();
}

Schedule sent_twice(const Shape& shape) {
  Schedule schedule = proven("ring", shape);
  if (shape.rank == 1) schedule.peers[schedule.steps[2].first_peer].message = 0;
  return schedule;
}

// Right in place, where the output begins as the input.
Schedule read_before_write(const Shape& shape) {
  Schedule schedule = proven("one_shot", shape);
  if (shape.rank == 1) schedule.steps[0].source = {Space::kOutput};
  return schedule;
}

// Reads its input once more after it has written the output: right out of place only.
Schedule stale_input(const Shape& shape) {
  Builder b(shape, 1);
  if (shape.rank == 0) {
    const auto fold = b.recv_reduce(other_ranks(shape), chunk(0), Finish::kYes);
    b.order(fold, b.send(other_ranks(shape), chunk(0)));
    for (int peer : other_ranks(shape)) b.send(peer, chunk(0));
    Schedule schedule = std::move(b).build();
    for (size_t step = 2; step < schedule.steps.size(); ++step)
      schedule.steps[step].source = {Space::kInput};
    return schedule;
  }
  b.send(0, chunk(0));
  b.recv(0, chunk(0));
  b.recv_reduce(0, chunk(0), Finish::kNo);
  Schedule schedule = std::move(b).build();
  schedule.steps[2].source = {Space::kNone};  // the input of rank 0 takes the place of the sum
  return schedule;
}

Schedule chunk_outside(const Shape& shape) {
  Schedule schedule = proven("ring", shape);
  schedule.steps[3].chunks.first = UINT32_MAX;
  return schedule;
}

Schedule waits_for_later_step(const Shape& shape) {
  Schedule schedule = proven("ring", shape);
  schedule.after[schedule.steps[2].first_after] = 2;
  return schedule;
}

Status any_shape(const Shape&) {
  return Status();
}

constexpr Algorithm row(std::string_view name, Schedule (*build)(const Shape&)) {
  return {name, "a planted fault", Collective::kAllReduce, {}, any_shape, build};
}

constexpr Canary kCanaries[] = {
    {row("double_count", double_count), Fault::kDoubleCount,
     "rank 0 step 3 (recv_reduce chunk 0  output = output + from 1 #0), chunk 0: counts the "
     "contribution of rank 0 twice"},
    {row("missing_chunk", missing_chunk), Fault::kMissing,
     "rank 0 ends with (0 + 2) in output chunk 2: the contribution of rank 1 is missing"},
    {row("circular_wait", circular_wait), Fault::kDeadlock,
     "rank 0 step 1 (send chunk 0  output to 1 #0) waits for rank 0 step 0 (recv_reduce chunk 0  "
     "output = input + from 2 #0) waits for rank 2 step 1"},
    {row("send_into_full_ring", send_into_full_ring), Fault::kDeadlock,
     "rank 0 step 0 (send chunk 0  input to 1 #0) waits for rank 1 step 1 (recv chunk 0  output = "
     "from 0 #0) waits for rank 1 step 0"},
    {row("race", ring_without_edges), Fault::kRace,
     "rank 1 step 1 (recv_reduce chunk 0  output = from 0 #0 + input) and rank 1 step 2 (send "
     "chunk "
     "0  output to 2 #1) touch the same memory in no order, and one writes it"},
    {row("different_orders", different_orders), Fault::kOrder,
     "chunk 0 is ((0 + 1) + 2) on rank 1, but (0 + 1 + 2) on rank 0: the bits may differ"},
    {row("finished_too_early", finished_too_early), Fault::kFinish,
     "rank 1 step 1 (recv_reduce chunk 0  output = from 0 #0 + input), chunk 0: marked as "
     "finished, "
     "but the result is only (0 + 1)"},
    {row("never_finished", never_finished), Fault::kFinish,
     "the result holds every contributor, but is not marked as finished"},
    {row("other_chunk", other_chunk), Fault::kMessages,
     "rank 2 step 0 (send chunk 0  input to 0 #0) and rank 0 step 1 (recv_reduce chunk 2  output = "
     "input + from 2 #0) are the ends of one message: expected the same chunks and encoding"},
    {row("never_received", never_received), Fault::kMessages,
     "rank 0 step 0 (send chunk 0  input to 1 #0): rank 1 never receives message #0"},
    {row("never_sent", never_sent), Fault::kMessages,
     "rank 0 step 0 (recv chunk 0  output = from 2 #0): rank 2 never sends message #0"},
    {row("sent_twice", sent_twice), Fault::kMessages, "both send message #0 from rank 1 to rank 2"},
    {row("read_before_write", read_before_write), Fault::kReadBeforeWrite,
     "rank 1 step 0 (send chunk 0  output to 2 #0), chunk 0: the output holds nothing yet"},
    {row("stale_input", stale_input), Fault::kMissing,
     "rank 1 ends with 0 in output chunk 0: the contribution of rank 1 is missing"},
    {row("chunk_outside", chunk_outside), Fault::kMalformed,
     "rank 0 step 3 (recv_reduce): its chunks lie outside the vector"},
    {row("waits_for_later_step", waits_for_later_step), Fault::kMalformed,
     "rank 0 step 2 (send): it waits for itself or a later step"},
};

}  // namespace

std::span<const Canary> canaries() {
  return kCanaries;
}

}  // namespace unisono
