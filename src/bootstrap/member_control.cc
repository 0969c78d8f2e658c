// SPDX-License-Identifier: Apache-2.0
// Every other rank of a control channel: tells rank 0, and obeys.
#include "base/pack.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/star_control.h"

namespace unisono {
namespace {

class MemberControl final : public StarControl {
 public:
  MemberControl(int rank, int size, std::vector<Socket>&& hub, const ControlOptions& options,
                Watcher::Share watcher)
      : StarControl(std::move(hub),
                    static_cast<size_t>(size) * (kMaxGatherBytes + sizeof(uint64_t)), options, size,
                    std::move(watcher)),
        rank_(rank) {
    begin();
  }
  ~MemberControl() override { withdraw(); }

 private:
  void hear_mine(Said said) override {
    lines_[0].send(encode(said));
    if (said.statement.empty()) said.statement = std::move(last_.statement);
    last_ = std::move(said);
    if (hub_left_) judge_alone();
  }
  void contribute(std::string_view mine) override {
    gathering_ = true;
    lines_[0].send(encode(Frame{{FrameKind::kData}, std::string(mine)}));
    if (hub_left_) end_gather();
  }
  void give_up_gather() override { lines_[0].send(encode(Frame{{FrameKind::kLate}, {}})); }
  void on_frame(size_t line, Frame frame) override;
  void on_end(size_t line) override {
    judge_.hear_end(0, lines_[line].reason());
    if (!judge_.verdict().ok()) announce(judge_.verdict());
  }

  // Rank 0 has left in good order: its last statement and mine are all there is to compare.
  void judge_alone() {
    judge_.hear(rank_, last_.word, last_.cause, last_.statement);
    if (!judge_.verdict().ok()) announce(judge_.verdict());
  }
  void end_gather() { announce(Status(StatusCode::kPeerFailed, "all_gather: rank 0 left")); }

  const int rank_;
  Said last_;
  bool hub_left_ = false;
  bool gathering_ = false;
};

void MemberControl::on_frame(size_t line, Frame frame) {
  if (frame.kind == FrameKind::kVerdict) return announce(decode_status(frame.payload));
  if (frame.kind == FrameKind::kAsk) return ask();
  if (frame.kind == FrameKind::kResult) {
    gathering_ = false;
    gathered_ = unpack(frame.payload, judge_.size());
    if (!gathered_) announce(Status(StatusCode::kInternal, "rank 0 sent a malformed result"));
  }
  if (frame.kind != FrameKind::kWord) return;
  Said said = decode_said(frame);
  hub_left_ = true;
  ask();
  lines_[line].close();
  judge_.hear(0, said.word, said.cause, std::move(said.statement));
  judge_alone();
  if (gathering_) end_gather();
}

}  // namespace

std::unique_ptr<Control> make_member_control(int rank, int size, Socket hub,
                                             const ControlOptions& options,
                                             Watcher::Share watcher) {
  std::vector<Socket> sockets;
  sockets.push_back(std::move(hub));
  return std::make_unique<MemberControl>(rank, size, std::move(sockets), options,
                                         std::move(watcher));
}

}  // namespace unisono
