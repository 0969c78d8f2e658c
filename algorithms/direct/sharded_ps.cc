// SPDX-License-Identifier: Apache-2.0
// Direct form of sharded_ps: two_shot. Every rank reduces its own part of each turn and the others copy it.
//
//   turn t:  copy my input of the others' parts to `given`  │ copied = t + 1
//            reduce my part from everyone's `given`         │ reduced = t + 1   (into my output and `result`)
//            copy the others' parts from their `result`     │
//
// Three turns overlap: a rank copies in turn t, reduces t−1 and copies out t−2, so a flag is seldom waited for.
// Staging of turn t may be used again in turn t + kTurns: whoever reduces turn t has seen all peers copy turn t in,
// so they have ended the copying out of turn t−3.
#include <algorithm>
#include <array>
#include <cstring>

#include "algorithms/direct/forms.h"
#include "direct/block.h"
#include "kernels/move.h"
#include "schedule/schedule.h"

namespace unisono {
namespace {

// Bytes that are reduced and then copied: past the cache while they are in the first one, else in one long copy, which
// takes over the lines of `result` from the peer without reading them first.
constexpr size_t kStreamedPiece = size_t{16} << 10, kCachedPiece = size_t{64} << 10;

static_assert(DirectBlock::kTurns >= 4);

// Bytes of a turn: whole lines, which every element size divides, for each rank; as much as the staging of a turn
// holds. Short turns would overlap sooner and stay in the first cache, and yet be slower: a line that the peer has just
// read is slow to write again, and with fewer CPUs than ranks every turn costs changes of who runs.
size_t turn_bytes(size_t bytes, size_t ranks) {
  const auto lines = [](size_t part) { return part / kDirectLine * kDirectLine; };
  const size_t whole = lines((bytes + ranks - 1) / ranks + kDirectLine - 1);
  return std::min(whole, lines(DirectBlock::kTurnBytes / ranks)) * ranks;
}

size_t turns_of(size_t bytes, size_t ranks) {
  const size_t turn = turn_bytes(bytes, ranks);
  return (bytes + turn - 1) / turn;
}

// The elements of one turn, and each rank's part of them.
class Turn {
 public:
  Turn(const DirectCall& call, size_t turn) : call_(call) {
    const size_t elements = turn_bytes(call.bytes(), call.blocks.size()) / call.element_size;
    begin_ = turn * elements;
    count_ = std::min(elements, call.count - begin_);
    staging_ = (call.first_turn + turn) % DirectBlock::kTurns;
  }
  ElementRange part(int rank) const {
    return elements_of({static_cast<uint32_t>(rank), 1}, static_cast<uint32_t>(call_.size()), count_);
  }
  size_t bytes(int rank) const { return part(rank).count() * call_.element_size; }
  const std::byte* input(int rank) const { return call_.input + offset(rank); }
  std::byte* output(int rank) const { return call_.output + offset(rank); }
  // Of `owner`'s staging, the place for `rank`'s part.
  std::byte* given(int owner, int rank) const {
    return call_.blocks[static_cast<size_t>(owner)]->given[staging_] + part(rank).begin * call_.element_size;
  }
  std::byte* result(int owner) const { return call_.blocks[static_cast<size_t>(owner)]->result[staging_]; }

 private:
  size_t offset(int rank) const { return (begin_ + part(rank).begin) * call_.element_size; }

  const DirectCall& call_;
  size_t begin_, count_, staging_;
};

void copy_in(const DirectCall& call, const Turn& turn) {
  for (int distance = 1; distance < call.size(); ++distance) {
    const int owner = (call.rank + distance) % call.size();
    std::memcpy(turn.given(call.rank, owner), turn.input(owner), turn.bytes(owner));
  }
}

void give_out(const DirectCall& call, std::byte* output, const std::byte* result, size_t bytes) {
  if (call.streams)
    stream(output, result, bytes);
  else
    std::memcpy(output, result, bytes);
}

void reduce(const DirectCall& call, const Turn& turn) {
  std::array<const void*, kMostRanks> room;
  const std::span operands(room.data(), call.blocks.size());
  for (int rank = 0; rank < call.size(); ++rank)
    operands[static_cast<size_t>(rank)] =
        rank == call.rank ? turn.input(rank) : turn.given(rank, call.rank);
  std::byte *const result = turn.result(call.rank), *const output = turn.output(call.rank);
  const size_t bytes = turn.bytes(call.rank);
  alignas(kDirectLine) std::byte room_for_streamed[kStreamedPiece];
  const size_t most = call.streams ? kStreamedPiece : kCachedPiece;
  for (size_t begin = 0; begin < bytes; begin += most) {
    const size_t piece = std::min(most, bytes - begin);
    std::byte* const first = call.streams ? room_for_streamed : output + begin;
    call.finish(first, operands.data(), operands.size(), piece / call.element_size, call.divisor);
    for (const void*& operand : operands) operand = static_cast<const std::byte*>(operand) + piece;
    std::memcpy(result + begin, first, piece);
    if (call.streams) stream(output + begin, first, piece);
  }
}

void copy_out(const DirectCall& call, const Turn& turn) {
  for (int distance = 1; distance < call.size(); ++distance) {
    const int owner = (call.rank + distance) % call.size();
    give_out(call, turn.output(owner), turn.result(owner), turn.bytes(owner));
  }
}

enum Phase : uint32_t { kEnter, kCopyIn, kAwaitCopied, kAwaitReduced };

bool advance(DirectCall& call) {
  DirectBlock& mine = *call.blocks[static_cast<size_t>(call.rank)];
  const size_t turns = turns_of(call.bytes(), call.blocks.size());
  if (call.phase == kEnter) {
    publish(mine.lines[call.sequence & 1][0].word, call.entry_word());
    call.phase = kCopyIn;
  }
  // Iteration i copies in turn i, reduces turn i−1 and copies out turn i−2.
  for (size_t& i = call.turn; i < turns + 2; ++i, call.phase = kCopyIn) {
    if (call.phase == kCopyIn) {
      if (i < turns) {
        copy_in(call, Turn(call, i));
        publish(mine.copied.value, call.first_turn + i + 1);
        call.ring = true;
      }
      call.phase = kAwaitCopied;
      call.peer = 0;
    }
    if (call.phase == kAwaitCopied) {
      if (i >= 1 && i - 1 < turns) {
        if (i == 1) {
          if (!all_published(call)) return false;
          call.peer = 0;
        }
        if (!all_reached(call, &DirectBlock::copied, call.first_turn + i)) return false;
        reduce(call, Turn(call, i - 1));
        publish(mine.reduced.value, call.first_turn + i);
        call.ring = true;
      }
      call.phase = kAwaitReduced;
      call.peer = 0;
    }
    if (i >= 2) {
      if (!all_reached(call, &DirectBlock::reduced, call.first_turn + i - 1)) return false;
      copy_out(call, Turn(call, i - 2));
    }
  }
  if (call.streams) end_streams();
  return true;
}

bool serves(const DirectShape& shape) {
  return shape.bytes > 0 && shape.ranks <= kMostRanks;
}

size_t turns(const DirectShape& shape) {
  return turns_of(shape.bytes, static_cast<size_t>(shape.ranks));
}

constexpr DirectForm kTwoShot = {"two_shot", "turns of copy in, reduce and copy out overlap",
                                 serves, turns, advance};
constexpr const DirectForm* kForms[] = {&kTwoShot, &mapped_form};

}  // namespace

constinit const std::span<const DirectForm* const> sharded_ps_forms = kForms;

}  // namespace unisono
