// SPDX-License-Identifier: Apache-2.0
// The control channel of a star, over the connections of its bootstrap. Private to it.
#pragma once

#include <condition_variable>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/control.h"
#include "bootstrap/judge.h"
#include "bootstrap/line.h"
#include "bootstrap/socket.h"
#include "bootstrap/watcher.h"

namespace unisono {

// Rank 0's, with the connections by rank (mine is none); answers turn over number `sequence` on
// each.
std::unique_ptr<Control> make_hub_control(std::vector<Socket> members, uint32_t sequence,
                                          const ControlOptions& options, Watcher::Share watcher);
// Another rank's, with its connection to rank 0.
std::unique_ptr<Control> make_member_control(int rank, int size, Socket hub,
                                             const ControlOptions& options, Watcher::Share watcher);

// What a bootstrap says from then on.
Status turned_over();

struct Said {
  Word word = Word::kStatement;
  Status cause;
  std::string statement;
};

Bytes encode(const Said& said);
Said decode_said(const Frame& frame);

// What both ends have in common. All state is guarded by the watcher's mutex.
class StarControl : public Control, protected Watched {
 public:
  StarControl(std::vector<Socket>&& sockets, size_t limit, const ControlOptions& options, int size,
              Watcher::Share watcher)
      : judge_(size, options), watcher_(std::move(watcher)) {
    for (Socket& socket : sockets) lines_.emplace_back(std::move(socket), limit);
  }
  ~StarControl() override { withdraw(); }

  void leave(std::string statement) final;
  Result<std::vector<std::string>> all_gather(std::string_view mine, Deadline deadline) final;

 protected:
  // Once constructed: the watcher calls virtual functions. And before members are destroyed.
  void begin() {
    const std::lock_guard lock(watcher_->mutex());
    watcher_->add(*this);
    present_ = true;
  }
  void withdraw();

  void tell(Word word, const Status& cause, std::string statement) final;
  virtual void hear_mine(Said said) = 0;
  virtual void contribute(std::string_view mine) = 0;
  virtual void give_up_gather() = 0;  // my patience is over
  virtual void on_frame(size_t line, Frame frame) = 0;
  virtual void on_end(size_t line) = 0;

  void announce(const Status& verdict) {
    decide(verdict);
    moved_.notify_all();
  }

  std::vector<Line> lines_;
  Judge judge_;
  std::optional<std::vector<std::string>> gathered_;
  std::condition_variable moved_;
  bool leaving_ = false;

 private:
  void list(std::vector<pollfd>& entries) final {
    for (const Line& line : lines_) entries.push_back(line.entry());
  }
  void serve(const pollfd* entries) final;
  struct Arrived;
  void hear_lines();
  void hear_from(size_t line, Arrived& arrived);
  bool is_quiet() const {
    return std::ranges::none_of(lines_, [](const Line& line) { return line.open(); });
  }

  Watcher::Share watcher_;
  bool present_ = false;
};

}  // namespace unisono
