// SPDX-License-Identifier: Apache-2.0
// Rank 0 of a star: accepts, tells ranks from strangers, collects and hands out.
#include "bootstrap/star_hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/pack.h"
#include "bootstrap/rank_list.h"
#include "bootstrap/star_control.h"

namespace unisono {
namespace {

constexpr size_t kSpareGuests = 64;  // strangers that may be undecided beside the job's own ranks
constexpr auto kAcceptPause =
    std::chrono::milliseconds(100);                         // while no connection can be accepted
constexpr auto kFarewell = std::chrono::milliseconds(500);  // to tell the others why the job failed

}  // namespace

void Hub::listen(Listener& listener) {
  listener.descriptor.async_wait(
      asio::posix::stream_descriptor::wait_read, [this, &listener](const std::error_code& error) {
        if (error || !listener.descriptor.is_open()) return;
        Socket socket = accept_from(listener.descriptor.native_handle());
        if (socket.valid()) {
          admit(std::move(socket));
        } else if (errno != EAGAIN) {  // no descriptor left, most likely
          options_.log.write(LogLevel::kWarn, system_error("cannot accept").message());
          make_room();
          listener.pause.expires_after(kAcceptPause);
          return listener.pause.async_wait([this, &listener](const std::error_code& stopped) {
            if (!stopped && listener.descriptor.is_open()) listen(listener);
          });
        }
        listen(listener);
      });
}

// Drops who has been undecided the longest: one of ours comes back, and is decided at once.
void Hub::make_room() {
  std::erase_if(guests_, [](const auto& guest) {
    return guest->connection->closed() && guest->state != Guest::State::kMember;
  });
  const auto undecided = std::ranges::find_if(
      guests_, [](const auto& guest) { return guest->state != Guest::State::kMember; });
  if (undecided != guests_.end()) drop(**undecided, "too many at once");
}

void Hub::admit(Socket socket) {
  if (!is_same_user(socket.descriptor())) return;
  if (guests_.size() >= ranks() + kSpareGuests) make_room();
  Guest& guest = *guests_.emplace_back(std::make_unique<Guest>(loop_));
  guest.connection = std::make_shared<Connection>(
      loop_, std::move(socket),
      Connection::Handlers{[this, &guest](Frame frame) { on_frame(guest, std::move(frame)); },
                           [this, &guest](const std::string& reason) { drop(guest, reason); }});
  guest.timer.expires_after(options_.stranger_time);
  // A guest lives at least until its connection is closed.
  guest.timer.async_wait(
      [this, &guest, connection = guest.connection](const std::error_code& error) {
        if (error || connection->closed() || guest.state == Guest::State::kMember) return;
        drop(guest, "it took too long");
      });
  guest.connection->read_raw(kHelloBytes, [this, &guest](const std::string& bytes) {
    on_hello(guest, decode_hello(bytes));
  });
}

void Hub::drop(Guest& guest, std::string_view reason) {
  guest.connection->close();
  guest.lost_because = reason;
  if (guest.state == Guest::State::kMember) return;  // noticed by whoever waits for it
  options_.log.write(LogLevel::kInfo, fmt::format("dropped a connection from {}: {}",
                                                  guest.connection->name(), reason));
}

std::string Hub::misfit(const Hello& hello) const {
  const Hello ours;
  if (hello.magic != ours.magic || hello.version != ours.version)
    return fmt::format("expected version {} of the rendezvous, got {}", ours.version,
                       hello.version);
  if (hello.size != options_.size)
    return fmt::format("expected a world of {} ranks as on rank 0, rank {} came with {}",
                       options_.size, hello.rank, hello.size);
  if (hello.rank < 1 || hello.rank >= options_.size)
    return fmt::format("expected a rank from 1 to {}, got {}", options_.size - 1, hello.rank);
  if (members_[static_cast<size_t>(hello.rank)] != nullptr)
    return fmt::format("rank {} is there already: two processes came with the same rank",
                       hello.rank);
  return {};
}

void Hub::on_hello(Guest& guest, const Hello& hello) {
  if (!equal_tokens(hello.token, options_.token)) return drop(guest, "wrong job token");
  if (const std::string reason = misfit(hello); !reason.empty()) {
    refuse(guest, reason);
  } else {
    guest.state = Guest::State::kWelcomed;
    guest.rank = hello.rank;
    guest.connection->send(encode(Frame{{FrameKind::kWelcome}, options_.token}));
  }
  guest.connection->set_limit(0);
  guest.connection->read_frames();  // of a refused one: until it hangs up, or its time is over
}

void Hub::refuse(Guest& guest, const std::string& reason) {
  options_.log.write(LogLevel::kWarn,
                     fmt::format("refused {}: {}", guest.connection->name(), reason));
  guest.state = Guest::State::kRefused;
  guest.connection->send(encode(Frame{{FrameKind::kRefused}, options_.token + reason}));
}

void Hub::on_frame(Guest& guest, Frame frame) {
  const bool member = guest.state == Guest::State::kMember;
  const bool turns_over = member && frame.kind == FrameKind::kTurnOver;
  if (guest.state == Guest::State::kRefused ||
      (!turns_over && frame.kind != (member ? FrameKind::kData : FrameKind::kReady)))
    return drop(guest, "it broke the protocol");
  if (turns_over) guest.connection->stop_reading();
  const auto patience =
      std::chrono::microseconds(std::min<uint64_t>(frame.patience_us, UINT32_MAX));
  const Deadline deadline = Deadline::after(patience);
  if (!impatience_ || deadline.left() < impatience_->left()) {
    impatience_ = deadline;
    impatience_changed_ = true;
  }
  if (member) {
    guest.inbox.push_back(std::move(frame));
    if (guest.inbox.size() > 1) drop(guest, "it sent more than was asked for");
    return;
  }
  Guest*& place = members_[static_cast<size_t>(guest.rank)];
  if (place != nullptr) return refuse(guest, fmt::format("rank {} is there already", guest.rank));
  place = &guest;
  guest.state = Guest::State::kMember;
  guest.timer.cancel();
  guest.connection->set_limit(kMaxGatherBytes);
}

Status Hub::lost(std::string_view what, const std::vector<int>& gone) const {
  return Status(StatusCode::kPeerFailed,
                fmt::format("{}: {} left ({})", what, rank_list(gone),
                            members_[static_cast<size_t>(gone.front())]->lost_because));
}

// Waits until nobody is missing; says from time to time who is.
Status Hub::collect(std::string_view what, bool (*is_missing)(const Guest*), Deadline deadline) {
  const auto is_gone = [](const Guest* guest) {
    return guest != nullptr && guest->connection->closed();
  };
  const auto settled = [&] {
    return !members_where(is_gone).empty() || members_where(is_missing).empty();
  };
  const auto start = Deadline::Clock::now();
  auto report = options_.report_after;
  for (;;) {
    // A member that gives up ends the job; better to end it with the names of those who made it
    // wait.
    const auto left = [&] {
      return impatience_ ? std::min(deadline.left(), impatience_->left()) : deadline.left();
    };
    impatience_changed_ = false;
    const auto woken = [&] { return settled() || impatience_changed_; };
    run_until(loop_, Deadline::after(std::min(left(), report)), woken);
    if (const auto gone = members_where(is_gone); !gone.empty()) return lost(what, gone);
    const auto missing = members_where(is_missing);
    if (missing.empty()) return Status();
    const auto waited = Deadline::Clock::now() - start;
    const std::string news =
        fmt::format("{}: {} of {} missing after {:.1f} s", what, rank_list(missing), size(),
                    std::chrono::duration<double>(waited).count());
    if (left() == left().zero()) return Status(StatusCode::kTimeout, news);
    if (waited < report) continue;
    options_.log.write(LogLevel::kWarn, news);
    report *= 2;
  }
}

Status Hub::deliver(std::string_view what, const Bytes& bytes, Deadline deadline) {
  for (size_t rank = 1; rank < ranks(); ++rank) members_[rank]->connection->send(bytes);
  const auto is_waiting = [](const Guest* guest) { return !guest->connection->sent_all(); };
  const auto is_gone = [&](const Guest* guest) {
    return is_waiting(guest) && guest->connection->closed();
  };
  const bool settled = run_until(loop_, deadline, [&] {
    return members_where(is_waiting).empty() || !members_where(is_gone).empty();
  });
  if (const auto gone = members_where(is_gone); !gone.empty()) return lost(what, gone);
  if (settled) return Status();
  return Status(StatusCode::kTimeout, fmt::format("{}: {} did not take the result in time", what,
                                                  rank_list(members_where(is_waiting))));
}

Status Hub::fail(Status status) {
  failure_ = std::move(status);
  const Bytes bytes = encode(Frame{{FrameKind::kFailure}, encode(failure_)});
  for (Guest* member : members_)
    if (member != nullptr) member->connection->send(bytes);
  run_until(loop_, Deadline::after(kFarewell), [&] {
    return members_where([](const Guest* guest) {
             return guest != nullptr && !guest->connection->closed() &&
                    !guest->connection->sent_all();
           })
        .empty();
  });
  return failure_;
}

Status Hub::join(Deadline deadline) {
  for (Socket& socket : options_.listeners)
    listen(listeners_.emplace_back(loop_, std::move(socket)));
  options_.listeners.clear();
  const auto is_missing = [](const Guest* guest) { return guest == nullptr; };
  const Status status = collect("waiting for the job's ranks", is_missing, deadline);
  for (Listener& listener : listeners_) listener.descriptor.close();
  for (const auto& guest : guests_)
    if (guest->state != Guest::State::kMember) drop(*guest, "everybody is there");
  if (!status.ok()) return fail(status);
  impatience_.reset();
  const Status delivered =
      deliver("start of the job", encode(Frame{{FrameKind::kGo}, {}}), deadline);
  return delivered.ok() ? delivered : fail(delivered);
}

// One frame of that kind from each member, by rank; mine is empty.
Result<std::vector<std::string>> Hub::take_all(FrameKind kind, std::string_view what,
                                               Deadline deadline) {
  const auto is_missing = [](const Guest* guest) { return guest->inbox.empty(); };
  if (const Status status = collect(what, is_missing, deadline); !status.ok()) return fail(status);
  impatience_.reset();
  std::vector<std::string> payloads(1);
  ++sequence_;
  for (size_t rank = 1; rank < ranks(); ++rank) {
    Frame& frame = members_[rank]->inbox.front();
    if (frame.sequence != sequence_ || frame.kind != kind)
      return fail(Status(StatusCode::kMismatch,
                         fmt::format("{}: rank 0 is at number {}, rank {} at {}{}", what, sequence_,
                                     rank, frame.sequence,
                                     frame.kind == kind ? "" : ", which is something else")));
    payloads.push_back(std::move(frame.payload));
    members_[rank]->inbox.clear();
  }
  return payloads;
}

Result<std::vector<std::string>> Hub::all_gather(std::string_view mine, Deadline deadline) {
  constexpr std::string_view kWhat = "all_gather";
  if (!failure_.ok()) return failure_;
  if (mine.size() > kMaxGatherBytes)
    return invalid_argument(
        fmt::format("all_gather: expected at most {} bytes, got {}", kMaxGatherBytes, mine.size()));
  auto gathered = take_all(FrameKind::kData, kWhat, deadline);
  if (!gathered.ok()) return gathered;
  gathered->front() = mine;
  const Bytes result = encode(Frame{{FrameKind::kResult, sequence_}, pack(*gathered)});
  if (const Status status = deliver(kWhat, result, deadline); !status.ok()) return fail(status);
  return gathered;
}

Result<std::unique_ptr<Control>> Hub::turn_over(const ControlOptions& options,
                                                const Settings& settings, Deadline deadline) {
  if (!failure_.ok()) return failure_;
  if (size() == 1)
    return make_thread_bootstraps(1).front()->turn_over(options, settings, deadline);
  auto watcher = Watcher::share();
  if (!watcher.ok()) return fail(watcher.status());
  const auto turned = take_all(FrameKind::kTurnOver, "start of the control channel", deadline);
  if (!turned.ok()) return turned.status();
  failure_ = turned_over();
  std::vector<Socket> members(1);
  for (size_t rank = 1; rank < ranks(); ++rank)
    members.push_back(members_[rank]->connection->release());
  return make_hub_control(std::move(members), sequence_, options, watcher.take());
}

Result<std::unique_ptr<Bootstrap>> join_as_hub(StarOptions options, Deadline deadline) {
  try {
    auto hub = std::make_unique<Hub>(std::move(options));
    UNISONO_RETURN_IF_ERROR(hub->join(deadline));
    return std::unique_ptr<Bootstrap>(std::move(hub));
  } catch (const std::system_error& error) {  // Asio: no descriptor left for its poller
    return Status(StatusCode::kSystem,
                  fmt::format("cannot start the rendezvous: {}", error.what()));
  }
}

}  // namespace unisono
