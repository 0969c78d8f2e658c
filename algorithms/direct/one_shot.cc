// SPDX-License-Identifier: Apache-2.0
// Direct forms of one_shot: everybody writes its vector where all can read it, and each adds all of them.
//
//   line   up to 56 bytes: the payload rides in the line of the word that announces it
//   lines  up to about 1000 bytes: several such lines, each announced by its own word
//   slot   longer: the vector in a slot, announced by one word
#include <array>
#include <cstring>

#include "algorithms/direct/forms.h"
#include "direct/block.h"

namespace unisono {
namespace {

using Line = DirectBlock::Line;

constexpr int kMostRanks = 64;
constexpr int kMostRanksInLines = 16;
constexpr size_t kLinesBytes = DirectBlock::kLines * Line::kPayload;

// Everybody's operands in rank order, mine from my own input.
template <typename OperandOf>
void fold(DirectCall& call, OperandOf operand_of) {
  std::array<const void*, kMostRanks> operands;
  for (int rank = 0; rank < call.size(); ++rank)
    operands[static_cast<size_t>(rank)] = rank == call.rank ? call.input : operand_of(rank);
  call.finish(call.output, operands.data(), static_cast<size_t>(call.size()), call.count, call.divisor);
}

// Only the last one to enter wakes the others: before that they could not go on.
bool wait(DirectCall& call) {
  call.ring = false;
  return false;
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
    call.ring = true;
  }
  if (!all_entered(call)) return wait(call);
  fold(call, [&](int rank) {
    return call.blocks[static_cast<size_t>(rank)]->lines[call.sequence & 1][0].payload;
  });
  return true;
}

bool serves_lines(const DirectShape& shape) {
  return shape.bytes <= kLinesBytes && shape.ranks <= kMostRanksInLines;
}

bool advance_lines(DirectCall& call) {
  const size_t bytes = call.bytes(), last = (bytes - 1) / Line::kPayload;
  const auto part = [&](size_t line) {
    return line < last ? Line::kPayload : bytes - last * Line::kPayload;
  };
  if (call.phase == 0) {
    Line* const mine = call.blocks[static_cast<size_t>(call.rank)]->lines[call.sequence & 1];
    for (size_t line = 0; line <= last; ++line) {
      std::memcpy(mine[line].payload, call.input + line * Line::kPayload, part(line));
      publish(mine[line].word, call.entry_word());
    }
    call.phase = 1;
    call.ring = true;
  }
  for (; call.peer < call.size(); ++call.peer, call.turn = 0)
    for (; call.peer != call.rank && call.turn <= last; ++call.turn)
      if (!has_entered(call, call.peer, call.turn)) return wait(call);
  // Kernels want whole vectors.
  std::array<std::array<std::byte, kLinesBytes>, kMostRanksInLines> vectors;
  fold(call, [&](int rank) {
    std::byte* const vector = vectors[static_cast<size_t>(rank)].data();
    const Line* const theirs = call.blocks[static_cast<size_t>(rank)]->lines[call.sequence & 1];
    for (size_t line = 0; line <= last; ++line)
      std::memcpy(vector + line * Line::kPayload, theirs[line].payload, part(line));
    return vector;
  });
  return true;
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
    call.ring = true;
  }
  if (!all_entered(call)) return wait(call);
  fold(call, [&](int rank) { return call.blocks[static_cast<size_t>(rank)]->slots[call.sequence & 1]; });
  return true;
}

constexpr DirectForm kLine = {"line", "payload in the line of its flag", serves_line, no_turns, advance_line};
constexpr DirectForm kLines = {"lines", "payload in several lines, each with its flag", serves_lines, no_turns,
                               advance_lines};
constexpr DirectForm kSlot = {"slot", "payload in a slot, announced by one flag", serves_slot, no_turns,
                              advance_slot};
constexpr const DirectForm* kForms[] = {&kLine, &kLines, &kSlot};

}  // namespace

constinit const std::span<const DirectForm* const> one_shot_forms = kForms;

}  // namespace unisono
