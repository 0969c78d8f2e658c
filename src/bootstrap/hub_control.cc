// SPDX-License-Identifier: Apache-2.0
// Rank 0 of a control channel: hears all, decides, tells all.
#include <fmt/format.h>

#include <algorithm>

#include "base/pack.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/rank_list.h"
#include "bootstrap/star_control.h"

namespace unisono {
namespace {

class HubControl final : public StarControl {
 public:
  HubControl(std::vector<Socket>&& members, uint32_t sequence, const ControlOptions& options,
             Watcher::Share watcher)
      : StarControl(std::move(members), kMaxGatherBytes, options, static_cast<int>(members.size()),
                    std::move(watcher)),
        asked_(lines_.size()),
        parts_(lines_.size()) {
    send_all(encode(Frame{{FrameKind::kTurnOver, sequence}, {}}));
    begin();
  }
  ~HubControl() override { withdraw(); }

 private:
  void hear_mine(Said said) override {
    const Bytes last_words = said.word == Word::kLeaves ? encode(said) : nullptr;
    hear(0, std::move(said));
    if (last_words != nullptr) send_all(last_words);  // after the verdict that may come of them
  }
  void contribute(std::string_view mine) override {
    parts_[0] = mine;
    settle_gather();
  }
  void give_up_gather() override { late(); }
  void on_frame(size_t rank, Frame frame) override;
  void on_end(size_t rank) override {
    judge_.hear_end(static_cast<int>(rank), lines_[rank].reason());
    settle();
  }

  void send_all(const Bytes& bytes) {
    for (Line& line : lines_) line.send(bytes);
  }
  void hear(size_t rank, Said said);
  void ask_others(size_t rank);
  void settle();
  void settle_gather();
  void late();
  std::vector<int> missing() const;

  std::vector<char> asked_;
  std::vector<std::optional<std::string>> parts_;  // of the all_gather under way
};

void HubControl::on_frame(size_t rank, Frame frame) {
  if (frame.kind == FrameKind::kWord) {
    hear(rank, decode_said(frame));
  } else if (frame.kind == FrameKind::kData) {
    parts_[rank] = std::move(frame.payload);
    settle_gather();
  } else if (frame.kind == FrameKind::kLate) {
    late();
  }
}

void HubControl::hear(size_t rank, Said said) {
  asked_[rank] = false;
  const bool leaves = said.word == Word::kLeaves;
  if (leaves || said.word == Word::kSuspicion) ask_others(rank);
  judge_.hear(static_cast<int>(rank), said.word, said.cause, std::move(said.statement));
  if (leaves && rank != 0) lines_[rank].close();
  settle();
  if (leaves && !leaving_) settle_gather();
}

// Whoever has not answered yet is not asked again.
void HubControl::ask_others(size_t rank) {
  const Bytes question = encode(Frame{{FrameKind::kAsk}, {}});
  for (size_t other = 1; other < lines_.size(); ++other)
    if (other != rank && !std::exchange(asked_[other], true)) lines_[other].send(question);
  if (rank != 0) ask();
}

void HubControl::settle() {
  if (judge_.verdict().ok() || (news() & kVerdict) != 0) return;
  send_all(encode(Frame{{FrameKind::kVerdict}, encode(judge_.verdict())}));
  announce(judge_.verdict());
}

std::vector<int> HubControl::missing() const {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < parts_.size(); ++rank)
    if (!parts_[rank]) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

void HubControl::settle_gather() {
  std::vector<int> awaited = missing();
  if (awaited.size() == parts_.size()) return;  // none is under way
  std::erase_if(awaited, [&](int rank) { return !judge_.has_left(rank); });
  if (!awaited.empty()) {
    judge_.decide(
        Status(StatusCode::kPeerFailed, fmt::format("all_gather: {} left", rank_list(awaited))));
    return settle();
  }
  if (!missing().empty()) return;
  gathered_.emplace();
  for (auto& part : parts_) gathered_->push_back(*std::exchange(part, std::nullopt));
  send_all(encode(Frame{{FrameKind::kResult}, pack(*gathered_)}));
  moved_.notify_all();
}

void HubControl::late() {
  const std::vector<int> ranks = missing();
  if (ranks.empty() || ranks.size() == parts_.size()) return;  // it has ended meanwhile
  judge_.decide(Status(
      StatusCode::kTimeout,
      fmt::format("all_gather: {} of {} did not come in time", rank_list(ranks), parts_.size())));
  settle();
}

}  // namespace

std::unique_ptr<Control> make_hub_control(std::vector<Socket> members, uint32_t sequence,
                                          const ControlOptions& options, Watcher::Share watcher) {
  return std::make_unique<HubControl>(std::move(members), sequence, options, std::move(watcher));
}

}  // namespace unisono
