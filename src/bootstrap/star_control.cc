// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/star_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/pack.h"
#include "bootstrap/bootstrap.h"

namespace unisono {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFarewell(200);      // for the other side to read the last words
constexpr milliseconds kLatePatience(700);  // for rank 0 to say who was late

bool is_judgement(const Frame& frame) {
  return frame.kind == FrameKind::kLate ||
         (frame.kind == FrameKind::kWord && frame.sequence == static_cast<uint32_t>(Word::kFailure));
}

}  // namespace

// From one line, and not yet heard.
struct StarControl::Arrived {
  std::deque<Frame> frames;
  bool ended = false;   // after them
  bool is_due = false;  // the first one
};

Status turned_over() {
  return Status(StatusCode::kInternal, "the bootstrap has become a control channel");
}

Bytes encode(const Said& said) {
  const std::string fields[] = {said.cause.ok() ? "" : encode(said.cause), said.statement};
  // The word itself rides in the header.
  return encode(Frame{{FrameKind::kWord, static_cast<uint32_t>(said.word)}, pack(fields)});
}

Said decode_said(const Frame& frame) {
  Said said{static_cast<Word>(frame.sequence), Status(), {}};
  if (auto fields = unpack(frame.payload, 2)) {
    if (!(*fields)[0].empty()) said.cause = decode_status((*fields)[0]);
    said.statement = std::move((*fields)[1]);
  }
  return said;
}

void StarControl::serve(const pollfd* entries) {
  const std::span all(entries, lines_.size());
  if (std::ranges::any_of(all, [](const pollfd& entry) { return entry.revents != 0; })) hear_lines();
  moved_.notify_all();  // also of what this rank has said itself
}

// Who fails or is late judges what others have done. They may have said so first, on other lines, so such a word counts
// once all lines have been read after it.
void StarControl::hear_lines() {
  std::map<size_t, Arrived> all;  // by line
  do {
    std::vector<pollfd> entries;
    list(entries);
    poll(entries.data(), entries.size(), 0);
    for (size_t i = 0; i < lines_.size(); ++i)
      if (entries[i].revents != 0 && lines_[i].serve(all[i].frames)) all[i].ended = true;
    for (auto& [line, arrived] : all) hear_from(line, arrived);
    for (auto& [line, arrived] : all) arrived.is_due = !arrived.frames.empty();
  } while (std::ranges::any_of(all, [](const auto& each) { return each.second.is_due; }));
  moved_.notify_all();
}

// Up to the first word that is not due.
void StarControl::hear_from(size_t line, Arrived& arrived) {
  auto& [frames, ended, is_due] = arrived;
  while (!frames.empty() && (is_due || !is_judgement(frames.front()))) {
    if (is_judgement(frames.front())) is_due = false;
    on_frame(line, std::move(frames.front()));
    frames.pop_front();
  }
  if (frames.empty() && std::exchange(ended, false) && !leaving_) on_end(line);
}

void StarControl::tell(Word word, const Status& cause, std::string statement) {
  if (watcher_.is_parents()) return;
  const std::lock_guard lock(watcher_->mutex());
  if (word == Word::kFailure) hear_lines();
  hear_mine({word, cause, std::move(statement)});
  watcher_->wake();
}

void StarControl::leave(std::string statement) {
  if (watcher_.is_parents()) return;
  std::unique_lock lock(watcher_->mutex());
  leaving_ = true;
  hear_mine({Word::kLeaves, Status(), std::move(statement)});
  for (Line& line : lines_) line.finish();
  watcher_->wake();
  // Whoever reads the last words closes.
  moved_.wait_for(lock, kFarewell, [&] { return is_quiet(); });
}

void StarControl::withdraw() {
  if (!present_ || watcher_.is_parents()) return;
  const std::lock_guard lock(watcher_->mutex());
  watcher_->remove(*this);
  for (Line& line : lines_) line.close();
  present_ = false;
}

Result<std::vector<std::string>> StarControl::all_gather(std::string_view mine, Deadline deadline) {
  if (mine.size() > kMaxGatherBytes)
    return invalid_argument(
        fmt::format("all_gather: expected at most {} bytes, got {}", kMaxGatherBytes, mine.size()));
  if (watcher_.is_parents())
    return Status(StatusCode::kAborted, "all_gather: this process was forked from the rank's");
  std::unique_lock lock(watcher_->mutex());
  const auto ended = [&] { return gathered_.has_value() || (news() & kVerdict) != 0; };
  if (!ended()) contribute(mine);
  watcher_->wake();
  if (!moved_.wait_for(lock, deadline.left(), ended)) {
    hear_lines();
    give_up_gather();
    watcher_->wake();
    moved_.wait_for(lock, kLatePatience, ended);
  }
  if (gathered_) return *std::exchange(gathered_, std::nullopt);
  if ((news() & kVerdict) != 0) return verdict();
  announce(Status(StatusCode::kTimeout, "all_gather: rank 0 did not answer in time"));
  return verdict();
}

}  // namespace unisono
