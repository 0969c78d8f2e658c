// SPDX-License-Identifier: Apache-2.0
#include "tools/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>

#include "base/deadline.h"
#include "bootstrap/token.h"
#include "tools/launch_process.h"
#include "topology/host.h"
#include "topology/machine.h"

namespace unisono {
namespace {

constexpr int kStatusTimeout = 124, kStatusNoProgram = 127;
constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP};

std::vector<std::vector<int>> shares_of(int ranks) {
  if (ranks == 1) return {};
  const auto machine = this_machine();
  return share_cpus(machine.ok() ? *machine : Machine(), allowed_cpus(), ranks);
}

void say(const LaunchOptions& options, std::string_view line) {
  const std::string text = fmt::format("{}: {}\n", options.command, line);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

// Signals as something to poll; mask and handling are as they were when it is gone.
class Signals {
 public:
  Signals() {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;  // ignored, ends of processes would be lost
    sigaction(SIGCHLD, &standard, &child_before_);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (const int signal : kStopSignals) sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, &before_);
    descriptor_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() {
    if (descriptor_ >= 0) close(descriptor_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    sigaction(SIGCHLD, &child_before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_; }
  const sigset_t& before() const { return before_; }
  std::optional<signalfd_siginfo> next() {
    signalfd_siginfo info;
    if (read(descriptor_, &info, sizeof(info)) != sizeof(info)) return std::nullopt;
    return info;
  }

 private:
  int descriptor_ = -1;
  sigset_t before_{};
  struct sigaction child_before_ {};
};

struct RankProcess {
  int rank = 0;
  pid_t process = -1;  // -1: reaped
  bool own_group = true;
  std::unique_ptr<LabelledOutput> out, err;
};

class Launch {
 public:
  explicit Launch(const LaunchOptions& options) : options_(options), token_(random_token()) {
    if (options.bind) shares_ = shares_of(options.ranks);
  }

  int run() {
    if (signals_.descriptor() < 0) {
      say(options_, fmt::format("cannot watch signals: {}", std::strerror(errno)));
      return 1;
    }
    if (options_.timeout.count() > 0) end_ = Deadline::after(options_.timeout);
    for (int rank = 0; rank < options_.ranks && !stopping(); ++rank) start(rank);
    while (alive()) step();
    for (RankProcess& rank : ranks_)
      for (LabelledOutput* output : {rank.out.get(), rank.err.get()})
        if (output != nullptr) output->drain(), output->finish();
    return status_;
  }

 private:
  bool alive() const {
    return std::ranges::any_of(ranks_, [](const auto& rank) { return rank.process > 0; });
  }
  bool stopping() const { return kill_at_.has_value(); }

  std::vector<std::string> environment_of(int rank) const {
    std::vector<std::string> set = {fmt::format("RANK={}", rank),
                                    fmt::format("LOCAL_RANK={}", rank),
                                    fmt::format("WORLD_SIZE={}", options_.ranks),
                                    fmt::format("LOCAL_WORLD_SIZE={}", options_.ranks),
                                    fmt::format("UNISONO_JOB_TOKEN={}", format_token(token_)),
                                    "UNISONO_BOOTSTRAP=local"};
    const auto is_replaced = [&](std::string_view entry) {
      const std::string_view name = entry.substr(0, entry.find('=') + 1);
      return std::ranges::any_of(set, [&](const auto& ours) { return ours.starts_with(name); });
    };
    std::vector<std::string> inherited;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
      if (!is_replaced(*entry)) inherited.emplace_back(*entry);
    std::ranges::move(set, std::back_inserter(inherited));
    return inherited;
  }

  // The end that the rank writes to; the other one is in `output`.
  int open_output(std::unique_ptr<LabelledOutput>& output, int sink, int rank) {
    int ends[2];
    if (!options_.label || pipe2(ends, O_CLOEXEC) != 0) return -1;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    output = std::make_unique<LabelledOutput>(ends[0], sink, fmt::format("[{}] ", rank));
    return ends[1];
  }

  void start(int rank) {
    RankProcess& started = ranks_.emplace_back();
    started.rank = rank;
    // A terminal answers only its own foreground group.
    started.own_group = rank != 0 || isatty(STDIN_FILENO) == 0;
    ProcessOptions process{options_.argv, environment_of(rank), rank == 0, started.own_group};
    process.out = open_output(started.out, STDOUT_FILENO, rank);
    process.err = open_output(started.err, STDERR_FILENO, rank);
    process.signal_mask = signals_.before();
    if (!shares_.empty()) process.cpus = shares_[static_cast<size_t>(rank)];
    started.process = start_process(process);
    const int error = errno;
    for (const int end : {process.out, process.err})
      if (end >= 0) close(end);
    if (started.process < 0)
      stop(kStatusNoProgram,
           fmt::format("cannot start '{}': {}", options_.argv.front(), std::strerror(error)));
  }

  // Sends a signal to the ranks that are left: their groups, which they keep until they are reaped.
  void signal_all(int signal, bool skip_own_group = false) {
    for (const RankProcess& rank : ranks_) {
      if (rank.process <= 0 || (!rank.own_group && skip_own_group)) continue;
      kill(rank.own_group ? -rank.process : rank.process, signal);
    }
  }

  // The first cause counts; an empty one has been told.
  void stop(int status, const std::string& cause, int signal = SIGTERM,
            bool skip_own_group = false) {
    if (stopping()) return;
    if (!cause.empty()) say(options_, cause);
    status_ = status;
    kill_at_ = Deadline::after(options_.grace);
    signal_all(signal, skip_own_group);
  }

  // Waits for output, an end, a signal or a moment, and acts on it.
  void step() {
    std::vector<pollfd> polled{{signals_.descriptor(), POLLIN, 0}};
    for (const RankProcess& rank : ranks_)
      for (const LabelledOutput* output : {rank.out.get(), rank.err.get()})
        if (output != nullptr && output->source() >= 0)
          polled.push_back({output->source(), POLLIN, 0});
    const auto& moment = kill_at_ ? kill_at_ : end_;
    const timespec left = moment ? to_timespec(moment->left()) : timespec{};
    ppoll(polled.data(), polled.size(), moment ? &left : nullptr, nullptr);
    while (const auto info = signals_.next())
      if (info->ssi_signo != SIGCHLD) on_signal(static_cast<int>(info->ssi_signo), info->ssi_code);
    for (RankProcess& rank : ranks_)
      for (LabelledOutput* output : {rank.out.get(), rank.err.get()})
        if (output != nullptr) output->drain();
    reap();
    if (!moment || !moment->passed()) return;
    if (!stopping()) return stop(kStatusTimeout, "the job's time is over, ending it");
    signal_all(SIGKILL);
    kill_at_ = Deadline::after(options_.grace);
  }

  static timespec to_timespec(std::chrono::nanoseconds duration) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
    return {static_cast<time_t>(seconds.count()), static_cast<long>((duration - seconds).count())};
  }

  void on_signal(int signal, int code) {
    if (stopping()) return signal_all(SIGKILL);  // asked twice
    // What a terminal sends has reached our own group already.
    stop(128 + signal, fmt::format("stopped by {}", strsignal(signal)), signal, code == SI_KERNEL);
  }

  // Several may have ended at once: one that a signal killed is likelier the cause than one that
  // gave up.
  void reap() {
    std::vector<std::pair<RankProcess*, siginfo_t>> ended;
    for (RankProcess& rank : ranks_) {
      siginfo_t info{};
      if (rank.process > 0 &&
          waitid(P_PID, static_cast<id_t>(rank.process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          info.si_pid != 0)
        ended.emplace_back(&rank, info);
    }
    std::ranges::stable_sort(ended, {},
                             [](const auto& end) { return end.second.si_code == CLD_EXITED; });
    for (const auto& [rank, info] : ended) on_end(*rank, info);
    for (const auto& [rank, info] : ended) {
      // What a failed rank left running in its group; the number is still its own until it is
      // reaped.
      if (stopping() && rank->own_group) kill(-rank->process, SIGKILL);
      while (waitpid(rank->process, nullptr, 0) < 0 && errno == EINTR) {
      }
      rank->process = -1;
    }
  }

  void on_end(RankProcess& rank, const siginfo_t& info) {
    for (LabelledOutput* output : {rank.out.get(), rank.err.get()})
      if (output != nullptr) output->drain();
    const std::string who = fmt::format("rank {} (pid {})", rank.rank, rank.process);
    if (info.si_code != CLD_EXITED)
      stop(128 + info.si_status, fmt::format("{} was killed by signal {} ({})", who, info.si_status,
                                             strsignal(info.si_status)));
    else if (info.si_status != 0)
      stop(info.si_status, options_.tell_status
                               ? fmt::format("{} exited with status {}", who, info.si_status)
                               : std::string());
  }

  const LaunchOptions& options_;
  const std::string token_;
  std::vector<std::vector<int>> shares_;  // CPUs of each rank; empty: as the launcher
  Signals signals_;
  std::vector<RankProcess> ranks_;
  std::optional<Deadline> end_;      // of the job's time
  std::optional<Deadline> kill_at_;  // set while stopping
  int status_ = 0;
};

}  // namespace

int launch(const LaunchOptions& options) {
  if (options.argv.empty() || options.ranks < 1) {
    say(options, fmt::format("expected a program and at least 1 rank, got {} words and {} ranks",
                             options.argv.size(), options.ranks));
    return 2;
  }
  return Launch(options).run();
}

}  // namespace unisono
