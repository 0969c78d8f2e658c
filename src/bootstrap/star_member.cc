// SPDX-License-Identifier: Apache-2.0
// Every other rank of a star: looks for rank 0 until it is there, then speaks only to it.
#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <optional>
#include <system_error>

#include "base/pack.h"
#include "bootstrap/connection.h"
#include "bootstrap/star.h"
#include "bootstrap/star_control.h"

namespace unisono {
namespace {

constexpr auto kFirstPause = std::chrono::milliseconds(5);  // between attempts; doubles
constexpr auto kLongestPause = std::chrono::milliseconds(320);

// One place where rank 0 may be.
struct Attempt {
  Attempt(asio::io_context& loop, const Endpoint& where) : endpoint(where), timer(loop) {}

  Endpoint endpoint;
  asio::steady_timer timer;
  std::chrono::milliseconds pause = kFirstPause;
  std::shared_ptr<Connection> connection;
  std::string trouble = "no answer yet";
};

class Member final : public Bootstrap {
 public:
  explicit Member(StarOptions options) : options_(std::move(options)) {}
  ~Member() override {
    for (Attempt& attempt : attempts_)
      if (attempt.connection) attempt.connection->close();
  }

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  std::string job_token() const override { return options_.token; }

  Status join(Deadline deadline);
  Result<std::vector<std::string>> all_gather(std::string_view mine, Deadline deadline) override;
  Result<std::unique_ptr<Control>> turn_over(const ControlOptions& options, const Settings&,
                                             Deadline deadline) override;

 private:
  void attempt(Attempt& attempt);
  void retry(Attempt& attempt, const std::string& trouble);
  void on_frame(Attempt& attempt, Frame frame);
  void on_answer(Attempt& attempt, const Frame& frame);
  Result<Frame> await(FrameKind kind, std::string_view what, Deadline deadline);
  Status fail(StatusCode code, std::string message);
  std::string troubles() const;

  StarOptions options_;
  asio::io_context loop_{1};
  std::list<Attempt> attempts_;
  Attempt* chosen_ = nullptr;  // the one where rank 0 is
  std::deque<Frame> inbox_;
  std::optional<Deadline> join_deadline_;
  uint32_t sequence_ = 0;
  Status failure_;
};

void Member::attempt(Attempt& attempt) {
  auto socket = open_socket(attempt.endpoint.family());
  if (!socket.ok()) return retry(attempt, std::string(socket.status().message()));
  attempt.connection = std::make_shared<Connection>(
      loop_, socket.take(),
      Connection::Handlers{
          [this, &attempt](Frame frame) { on_frame(attempt, std::move(frame)); },
          [this, &attempt](const std::string& reason) { retry(attempt, reason); }});
  attempt.connection->connect(attempt.endpoint, [this, &attempt] {
    attempt.trouble = "connected, but rank 0 does not answer";
    Hello hello;
    hello.token = options_.token;
    hello.rank = options_.rank;
    hello.size = options_.size;
    attempt.connection->send(std::make_shared<const std::string>(encode(hello)));
    attempt.connection->read_frames();
  });
}

void Member::retry(Attempt& attempt, const std::string& trouble) {
  attempt.trouble = trouble;
  if (chosen_ != nullptr) return;  // rank 0 is gone: noticed by await()
  attempt.timer.expires_after(attempt.pause);
  attempt.pause = std::min(2 * attempt.pause, kLongestPause);
  attempt.timer.async_wait([this, &attempt](const std::error_code& error) {
    if (!error && chosen_ == nullptr) this->attempt(attempt);
  });
}

void Member::on_frame(Attempt& attempt, Frame frame) {
  if (chosen_ == nullptr) return on_answer(attempt, frame);
  if (frame.kind == FrameKind::kTurnOver) attempt.connection->stop_reading();
  inbox_.push_back(std::move(frame));
  if (inbox_.size() > 2) attempt.connection->close();  // at most a result and a failure are due
}

void Member::on_answer(Attempt& attempt, const Frame& frame) {
  const std::string_view payload = frame.payload;
  const bool ours = equal_tokens(payload.substr(0, kTokenBytes), options_.token);
  if (!ours || (frame.kind != FrameKind::kWelcome && frame.kind != FrameKind::kRefused)) {
    attempt.connection->close();
    return retry(attempt, "what listens there is not of this job");
  }
  chosen_ = &attempt;
  for (Attempt& other : attempts_)
    if (&other != &attempt && other.connection) other.connection->close();
  if (frame.kind == FrameKind::kRefused) return inbox_.push_back(frame);
  attempt.connection->set_limit(static_cast<size_t>(options_.size) *
                                (kMaxGatherBytes + sizeof(uint64_t)));
  attempt.connection->send(
      encode(Frame{{FrameKind::kReady, 0, 0, patience_of(*join_deadline_)}, {}}));
}

std::string Member::troubles() const {
  std::string text;
  for (const Attempt& attempt : attempts_)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", text_of(attempt.endpoint),
                        attempt.trouble);
  return text;
}

Status Member::fail(StatusCode code, std::string message) {
  failure_ = Status(code, std::move(message));
  // Rank 0 sees this rank leave and tells the others.
  if (chosen_ != nullptr) chosen_->connection->close();
  return failure_;
}

// The next frame from rank 0, which must be of that kind.
Result<Frame> Member::await(FrameKind kind, std::string_view what, Deadline deadline) {
  run_until(loop_, deadline, [&] { return !inbox_.empty() || chosen_->connection->closed(); });
  if (inbox_.empty()) {
    if (chosen_->connection->closed())
      return fail(StatusCode::kPeerFailed,
                  fmt::format("{}: rank 0 left ({})", what, chosen_->trouble));
    return fail(StatusCode::kTimeout, fmt::format("{}: rank 0 did not answer in time", what));
  }
  Frame frame = std::move(inbox_.front());
  inbox_.pop_front();
  if (frame.kind == FrameKind::kRefused && frame.payload.size() >= kTokenBytes)
    return fail(StatusCode::kInvalidArgument,
                fmt::format("refused by rank 0: {}", frame.payload.substr(kTokenBytes)));
  if (frame.kind == FrameKind::kFailure) {
    const Status status = decode_status(frame.payload);
    return fail(status.code(), std::string(status.message()));
  }
  if (frame.kind != kind || frame.sequence != sequence_)
    return fail(StatusCode::kInternal, fmt::format("{}: rank 0 broke the protocol", what));
  return frame;
}

Status Member::join(Deadline deadline) {
  constexpr std::string_view kWhat = "waiting for the job's ranks";
  join_deadline_ = deadline;
  for (const Endpoint& endpoint : options_.rendezvous)
    attempt(attempts_.emplace_back(loop_, endpoint));
  const auto found = [&] { return chosen_ != nullptr; };
  auto report = options_.report_after;
  while (!run_until(loop_, Deadline::after(std::min(deadline.left(), report)), found)) {
    const std::string news = fmt::format("{}: rank 0 missing ({})", kWhat, troubles());
    if (deadline.passed()) return fail(StatusCode::kTimeout, news);
    options_.log.write(LogLevel::kWarn, news);
    report *= 2;
  }
  return await(FrameKind::kGo, kWhat, deadline).status();
}

Result<std::vector<std::string>> Member::all_gather(std::string_view mine, Deadline deadline) {
  if (!failure_.ok()) return failure_;
  if (mine.size() > kMaxGatherBytes)
    return invalid_argument(
        fmt::format("all_gather: expected at most {} bytes, got {}", kMaxGatherBytes, mine.size()));
  ++sequence_;
  chosen_->connection->send(
      encode(Frame{{FrameKind::kData, sequence_, 0, patience_of(deadline)}, std::string(mine)}));
  auto frame = await(FrameKind::kResult, "all_gather", deadline);
  if (!frame.ok()) return frame.status();
  auto gathered = unpack(frame->payload, static_cast<size_t>(options_.size));
  if (!gathered) return fail(StatusCode::kInternal, "all_gather: rank 0 sent a malformed result");
  return std::move(*gathered);
}

Result<std::unique_ptr<Control>> Member::turn_over(const ControlOptions& options, const Settings&,
                                                   Deadline deadline) {
  if (!failure_.ok()) return failure_;
  auto watcher = Watcher::share();
  if (!watcher.ok()) return fail(watcher.status().code(), std::string(watcher.status().message()));
  chosen_->connection->send(
      encode(Frame{{FrameKind::kTurnOver, ++sequence_, 0, patience_of(deadline)}, {}}));
  const auto answer = await(FrameKind::kTurnOver, "start of the control channel", deadline);
  if (!answer.ok()) return answer.status();
  failure_ = turned_over();
  return make_member_control(rank(), size(), chosen_->connection->release(), options,
                             watcher.take());
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> join_as_member(StarOptions options, Deadline deadline) {
  try {
    auto member = std::make_unique<Member>(std::move(options));
    UNISONO_RETURN_IF_ERROR(member->join(deadline));
    return std::unique_ptr<Bootstrap>(std::move(member));
  } catch (const std::system_error& error) {  // Asio: no descriptor left for its poller
    return Status(StatusCode::kSystem,
                  fmt::format("cannot start the rendezvous: {}", error.what()));
  }
}

Result<std::unique_ptr<Bootstrap>> join_star(StarOptions options, Deadline deadline) {
  return options.rank == 0 ? join_as_hub(std::move(options), deadline)
                           : join_as_member(std::move(options), deadline);
}

}  // namespace unisono
