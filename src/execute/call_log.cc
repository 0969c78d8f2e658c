// SPDX-License-Identifier: Apache-2.0
#include "execute/call_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace unisono {
namespace {

constexpr int64_t kNone = -1;

// "<calls made> <oldest that waits, or -1> <1 when left> <gathers ended> <1 in a gather>", then a line
// "<number> <signature>" a call.
struct Statement {
  int64_t made = kNone;  // kNone: the rank has said nothing
  int64_t waiting = kNone;
  bool left = false;
  int64_t gathers = 0;
  bool gathering = false;
  std::map<int64_t, std::string_view> calls;
};

Statement parse(std::string_view text) {
  Statement statement;
  const auto lines = split(text, '\n');
  const auto head = split(lines.front(), ' ');
  if (head.size() != 5) return statement;
  statement.made = parse_integer(head[0]).value_or(kNone);
  statement.waiting = parse_integer(head[1]).value_or(kNone);
  statement.left = head[2] == "1";
  statement.gathers = parse_integer(head[3]).value_or(kNone);
  statement.gathering = head[4] == "1";
  for (const std::string_view line : std::span(lines).subspan(1)) {
    const size_t space = line.find(' ');
    if (space == line.npos) continue;
    statement.calls[parse_integer(line.substr(0, space)).value_or(kNone)] = line.substr(space + 1);
  }
  return statement;
}

// The first call that two ranks describe otherwise.
Status compare_calls(std::span<const Statement> ranks) {
  struct First {
    size_t rank;
    std::string_view text;
  };
  std::map<int64_t, First> first;
  std::map<int64_t, std::string> differences;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const auto& [number, text] : ranks[rank].calls) {
      const First& other = first.try_emplace(number, First{rank, text}).first->second;
      if (other.text != text)
        differences.try_emplace(number, fmt::format("call {}: rank {} {}, rank {} {}", number,
                                                    other.rank, other.text, rank, text));
    }
  }
  return differences.empty() ? Status()
                             : Status(StatusCode::kMismatch, differences.begin()->second);
}

// Whether `other` will not make the call that `waiter` waits in: it has left, or gathers, for which it waits for
// `waiter`. (A statement of a gather that has ended since is known by the number of those.)
const char* end_of(const Statement& waiter, const Statement& other) {
  if (other.made > waiter.waiting) return nullptr;
  if (other.left) return "left";
  const bool in_turn = other.gathering && !waiter.gathering && other.gathers == waiter.gathers;
  return in_turn ? "allocates or frees memory" : nullptr;
}

// A rank that waits for one that will not make that call.
Status compare_ends(std::span<const Statement> ranks) {
  for (size_t waiter = 0; waiter < ranks.size(); ++waiter) {
    const int64_t waiting = ranks[waiter].waiting;
    if (waiting == kNone) continue;
    for (size_t leaver = 0; leaver < ranks.size(); ++leaver) {
      const char* const end = end_of(ranks[waiter], ranks[leaver]);
      if (end == nullptr) continue;
      const auto text = ranks[waiter].calls.find(waiting);
      return Status(StatusCode::kMismatch,
                    fmt::format("call {}: rank {} {}, rank {} {} after {} calls", waiting, waiter,
                                text == ranks[waiter].calls.end() ? "waits in it" : text->second,
                                leaver, end, ranks[leaver].made));
    }
  }
  return Status();
}

}  // namespace

std::string CallLog::statement(std::optional<uint32_t> oldest_waiting, bool left) const {
  const uint32_t made = made_.load(std::memory_order_relaxed);
  std::string text =
      fmt::format("{} {} {} {} {}", made, oldest_waiting ? int64_t{*oldest_waiting} : kNone, left ? 1 : 0,
                  gathers_, gathering_ ? 1 : 0);
  for (uint32_t number = made - std::min<uint32_t>(made, kCalls); number != made; ++number)
    text += fmt::format("\n{} {}", number, last_[number % kCalls]->signature_text);
  return text;
}

std::string CallLog::phase() const {
  return fmt::format("rank {} had made {} calls", rank_, made_.load(std::memory_order_relaxed));
}

Status CallLog::compare(std::span<const std::string> statements) {
  std::vector<Statement> ranks;
  for (const std::string& statement : statements) ranks.push_back(parse(statement));
  UNISONO_RETURN_IF_ERROR(compare_calls(ranks));
  return compare_ends(ranks);
}

}  // namespace unisono
