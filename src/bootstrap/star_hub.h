// SPDX-License-Identifier: Apache-2.0
// Hub: rank 0 of a star. Private to it.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/asio.h"
#include "bootstrap/connection.h"
#include "bootstrap/star.h"

namespace unisono {

class Hub final : public Bootstrap {
 public:
  explicit Hub(StarOptions options) : options_(std::move(options)), members_(ranks()) {}
  ~Hub() override {
    for (const auto& guest : guests_) guest->connection->close();
  }

  int rank() const override { return 0; }
  int size() const override { return options_.size; }
  std::string job_token() const override { return options_.token; }

  Status join(Deadline deadline);
  Result<std::vector<std::string>> all_gather(std::string_view mine, Deadline deadline) override;
  Result<std::unique_ptr<Control>> turn_over(const ControlOptions& options,
                                             const Settings& settings, Deadline deadline) override;

 private:
  // Whoever has connected: a stranger until its hello is right, a member from its ready on.
  struct Guest {
    enum class State { kStranger, kWelcomed, kMember, kRefused };

    explicit Guest(asio::io_context& loop) : timer(loop) {}

    State state = State::kStranger;
    int rank = -1;
    std::shared_ptr<Connection> connection;
    asio::steady_timer timer;
    std::deque<Frame> inbox;  // of a member
    std::string lost_because;
  };

  struct Listener {
    Listener(asio::io_context& loop, Socket socket)
        : descriptor(loop, socket.descriptor()), pause(loop) {
      socket.release();
    }

    asio::posix::stream_descriptor descriptor;
    asio::steady_timer pause;
  };

  size_t ranks() const { return static_cast<size_t>(options_.size); }

  // Guests.
  void listen(Listener& listener);
  void admit(Socket socket);
  void make_room();
  void on_hello(Guest& guest, const Hello& hello);
  void on_frame(Guest& guest, Frame frame);
  void refuse(Guest& guest, const std::string& reason);
  void drop(Guest& guest, std::string_view reason);
  std::string misfit(const Hello& hello) const;

  // Members.
  template <typename Predicate>
  std::vector<int> members_where(Predicate holds) const {
    std::vector<int> found;
    for (size_t rank = 1; rank < ranks(); ++rank)
      if (holds(members_[rank])) found.push_back(static_cast<int>(rank));
    return found;
  }
  Status collect(std::string_view what, bool (*is_missing)(const Guest*), Deadline deadline);
  Result<std::vector<std::string>> take_all(FrameKind kind, std::string_view what,
                                            Deadline deadline);
  Status deliver(std::string_view what, const Bytes& bytes, Deadline deadline);
  Status lost(std::string_view what, const std::vector<int>& gone) const;
  Status fail(Status status);

  StarOptions options_;
  asio::io_context loop_{1};
  std::list<Listener> listeners_;
  std::list<std::unique_ptr<Guest>> guests_;
  std::vector<Guest*> members_;         // by rank; null: not there yet
  std::optional<Deadline> impatience_;  // of the least patient member
  bool impatience_changed_ = false;
  uint32_t sequence_ = 0;
  Status failure_;
};

}  // namespace unisono
