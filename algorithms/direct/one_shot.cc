// SPDX-License-Identifier: Apache-2.0
// Direct forms of one_shot: everybody writes its vector where all can read it, and each adds all of them.
//
//   line   up to 56 bytes: the payload rides in the line of the word that announces it
//   lines  up to four such lines, each announced by its own word
//   slot   longer, where one more line for the word costs less than words in all: the vector in a slot
#include <algorithm>
#include <array>
#include <cstring>

#include "algorithms/direct/forms.h"
#include "direct/block.h"

namespace unisono {
namespace {

using Line = DirectBlock::Line;

constexpr size_t kLinesBytes = DirectBlock::kLines * Line::kPayload;

// `count` elements from `offset` on; everybody's operands in rank order, mine from my own input.
template <typename OperandOf>
void fold(const DirectCall& call, size_t offset, size_t count, OperandOf operand_of) {
  std::array<const void*, kMostRanks> operands;
  for (int rank = 0; rank < call.size(); ++rank)
    operands[static_cast<size_t>(rank)] = rank == call.rank ? call.input + offset : operand_of(rank);
  call.finish(call.output + offset, operands.data(), static_cast<size_t>(call.size()), count, call.divisor);
}

// Those who sleep could go on only once the last one had entered, and that one does not wait: so peers are
// woken at the end, when my words have long left, and never while I wait.
bool end(DirectCall& call) {
  call.ring = true;
  return true;
}

bool serves_line(const DirectShape& shape) {
  return shape.bytes <= Line::kPayload && shape.ranks <= kMostRanks;
}

bool advance_line(DirectCall& call) {
  if (call.phase == 0) {
    Line& mine = call.blocks[static_cast<size_t>(call.rank)]->lines[call.sequence & 1][0];
    std::memcpy(mine.payload, call.input, call.bytes());
    publish(mine.word, call.entry_word());
    call.phase = 1;
  }
  if (!all_published(call)) return false;
  fold(call, 0, call.count, [&](int rank) {
    return call.blocks[static_cast<size_t>(rank)]->lines[call.sequence & 1][0].payload;
  });
  return end(call);
}

bool serves_lines(const DirectShape& shape) {
  return shape.bytes <= kLinesBytes && shape.ranks <= kMostRanks;
}

bool advance_lines(DirectCall& call) {
  const size_t bytes = call.bytes(), lines = (bytes + Line::kPayload - 1) / Line::kPayload;
  const auto part = [&](size_t line) { return std::min(Line::kPayload, bytes - line * Line::kPayload); };
  if (call.phase == 0) {
    Line* const mine = call.blocks[static_cast<size_t>(call.rank)]->lines[call.sequence & 1];
    for (size_t line = 0; line < lines; ++line) {
      std::memcpy(mine[line].payload, call.input + line * Line::kPayload, part(line));
      publish(mine[line].word, call.entry_word());
    }
    call.phase = 1;
  }
  // All lines of the one that is waited for travel at the same time.
  if (call.peer < call.peers.size()) {
    const Line* const theirs = call.blocks[static_cast<size_t>(call.peers[call.peer])]->lines[call.sequence & 1];
    for (size_t line = call.turn + 1; line < lines; ++line) __builtin_prefetch(theirs + line);
  }
  for (; call.turn < lines; ++call.turn, call.peer = 0) {
    if (!all_published(call, call.turn)) return false;
    fold(call, call.turn * Line::kPayload, part(call.turn) / call.element_size, [&](int rank) {
      return call.blocks[static_cast<size_t>(rank)]->lines[call.sequence & 1][call.turn].payload;
    });
  }
  return end(call);
}

bool serves_slot(const DirectShape& shape) {
  return shape.bytes <= DirectBlock::kSlotBytes && shape.ranks <= kMostRanks;
}

bool advance_slot(DirectCall& call) {
  if (call.phase == 0) {
    DirectBlock& mine = *call.blocks[static_cast<size_t>(call.rank)];
    std::memcpy(mine.slots[call.sequence & 1], call.input, call.bytes());
    publish(mine.lines[call.sequence & 1][0].word, call.entry_word());
    call.phase = 1;
  }
  if (!all_published(call)) return false;
  fold(call, 0, call.count,
       [&](int rank) { return call.blocks[static_cast<size_t>(rank)]->slots[call.sequence & 1]; });
  return end(call);
}

constexpr DirectForm kLine = {"line", "payload in the line of its flag", serves_line, no_turns, advance_line};
constexpr DirectForm kLines = {"lines", "payload in several lines, each with its flag", serves_lines, no_turns,
                               advance_lines};
constexpr DirectForm kSlot = {"slot", "payload in a slot, announced by one flag", serves_slot, no_turns,
                              advance_slot};
constexpr const DirectForm* kForms[] = {&kLine, &kLines, &kSlot, &mapped_form};

}  // namespace

constinit const std::span<const DirectForm* const> one_shot_forms = kForms;

}  // namespace unisono
