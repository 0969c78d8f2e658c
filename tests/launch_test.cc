// SPDX-License-Identifier: Apache-2.0
// The local launcher: labels, causes, exit statuses, and nothing left behind.
#include "tools/launch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <sstream>

#include "topology/host.h"
#include "topology/machine.h"

namespace unisono {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A launcher in a process of its own, with our pipes as its standard streams.
class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options, const std::string& input = {}) {
    int in[2], out[2], err[2];
    for (int* ends : {in, out, err}) EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(in[1]);  // or the input would never end
      dup2(in[0], STDIN_FILENO), dup2(out[1], STDOUT_FILENO), dup2(err[1], STDERR_FILENO);
      _exit(launch(options));
    }
    close(in[0]), close(out[1]), close(err[1]);
    EXPECT_EQ(write(in[1], input.data(), input.size()), static_cast<ssize_t>(input.size()));
    close(in[1]);
    out_ = out[0];
    err_ = err[0];
  }
  ~Launcher() { close(out_), close(err_); }

  pid_t process() const { return process_; }
  // One line; without its end.
  std::string read_line() {
    std::string line;
    for (char c; read(out_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  // To the end: the exit status, with everything that was written since.
  int finish() {
    out = rest(out_);
    err = rest(err_);
    int status = -1;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::vector<std::string> sorted_lines() const {
    std::vector<std::string> lines;
    std::istringstream stream(out);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    std::ranges::sort(lines);
    return lines;
  }

  std::string out, err;

 private:
  static std::string rest(int descriptor) {
    std::string text;
    char buffer[4096];
    for (;;) {
      pollfd ready{descriptor, POLLIN, 0};
      if (poll(&ready, 1, 30'000) != 1) return text + " … and no end";
      const ssize_t got = read(descriptor, buffer, sizeof(buffer));
      if (got <= 0) return text;
      text.append(buffer, static_cast<size_t>(got));
    }
  }

  pid_t process_ = -1;
  int out_ = -1, err_ = -1;
};

LaunchOptions shell(int ranks, const std::string& script) {
  LaunchOptions options;
  options.ranks = ranks;
  options.argv = {"sh", "-c", script};
  options.grace = std::chrono::milliseconds(300);
  return options;
}

TEST(Launch, TellsRanksWhoTheyAreAndLabelsTheirLines) {
  Launcher launcher(shell(3, "echo $LOCAL_RANK/$WORLD_SIZE; echo a >&2; printf 'no end '$RANK"));
  EXPECT_EQ(launcher.finish(), 0);
  EXPECT_THAT(launcher.sorted_lines(), ElementsAre("[0] 0/3", "[0] no end 0", "[1] 1/3",
                                                   "[1] no end 1", "[2] 2/3", "[2] no end 2"));
  EXPECT_THAT(launcher.err,
              AllOf(HasSubstr("[0] a\n"), HasSubstr("[1] a\n"), HasSubstr("[2] a\n")));
}

TEST(Launch, GivesAllRanksOneSecretTokenAndTheLocalBootstrap) {
  LaunchOptions options = shell(2, "echo $UNISONO_BOOTSTRAP $UNISONO_JOB_TOKEN");
  options.label = false;
  Launcher first(options), second(options);
  EXPECT_EQ(first.finish(), 0);
  EXPECT_EQ(second.finish(), 0);
  const auto lines = first.sorted_lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], lines[1]);
  EXPECT_TRUE(lines[0].starts_with("local ")) << lines[0];
  EXPECT_EQ(lines[0].size(), 6u + 32u);
  EXPECT_NE(first.out, second.out);
}

// The shares are equal, of whole CPUs, or everything where they cannot be.
TEST(Launch, RanksShareTheCpus) {
  const int cpus = static_cast<int>(allowed_cpus().size());
  for (const bool bind : {true, false}) {
    for (const int ranks : {2, cpus, cpus + 1, 2 * cpus}) {
      LaunchOptions options = shell(ranks, "echo $RANK has $(nproc); grep Cpus_allowed_list /proc/self/status");
      options.label = false;
      options.bind = bind;
      Launcher launcher(options);
      EXPECT_EQ(launcher.finish(), 0);
      const auto lines = launcher.sorted_lines();
      const std::set<std::string> different(lines.begin(), lines.end());
      const auto shares = share_cpus(*this_machine(), allowed_cpus(), ranks);
      const bool shared = bind && !shares.empty();
      for (int rank = 0; rank < ranks; ++rank) {
        const size_t has = shared ? shares.at(static_cast<size_t>(rank)).size() : static_cast<size_t>(cpus);
        EXPECT_TRUE(different.contains(std::to_string(rank) + " has " + std::to_string(has))) << launcher.out;
      }
      const int places = shared ? std::min(ranks, cpus) : 1;
      EXPECT_EQ(different.size(), static_cast<size_t>(ranks + places)) << launcher.out;
    }
  }
}

TEST(Launch, InputGoesToRank0AndLinesOfARankStayInOrder) {
  Launcher launcher(shell(3, "cat; [ $RANK = 1 ] && seq 20000 || true"), "for rank 0\n");
  EXPECT_EQ(launcher.finish(), 0);
  std::string expected;
  for (int i = 1; i <= 20000; ++i) expected += "[1] " + std::to_string(i) + "\n";
  const std::string input = "[0] for rank 0\n";
  const size_t at = launcher.out.find(input);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(launcher.out.erase(at, input.size()), expected);
}

TEST(Launch, TheFirstFailureEndsTheJobWithItsCause) {
  const struct {
    std::string script;
    int status;
    std::string cause;
  } kCases[] = {
      {"[ $RANK = 1 ] && exit 7; exec sleep 60", 7, ") exited with status 7"},
      {"[ $RANK = 1 ] && kill -9 $$; exec sleep 60", 128 + SIGKILL,
       ") was killed by signal 9 (Killed)"},
      // The others ignore SIGTERM, and have children of their own.
      {"[ $RANK = 1 ] && exit 3; trap '' TERM; sleep 60 & wait; sleep 60", 3,
       ") exited with status 3"},
  };
  for (const auto& test : kCases) {
    const auto start = std::chrono::steady_clock::now();
    Launcher launcher(shell(3, test.script));
    EXPECT_EQ(launcher.finish(), test.status);
    EXPECT_THAT(launcher.err, AllOf(HasSubstr("unisono run: rank 1 (pid "), HasSubstr(test.cause)));
    EXPECT_EQ(std::ranges::count(launcher.err, '\n'), 1) << launcher.err;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  }
}

TEST(Launch, AProgramThatCannotStartIsOneLine) {
  LaunchOptions options;
  options.ranks = 3;
  for (const char* program : {"no-such-program", "/etc/passwd"}) {
    options.argv = {program};
    Launcher launcher(options);
    EXPECT_EQ(launcher.finish(), 127);
    EXPECT_THAT(launcher.err,
                HasSubstr("unisono run: cannot start '" + std::string(program) + "': "));
    EXPECT_EQ(std::ranges::count(launcher.err, '\n'), 1) << launcher.err;
  }
}

TEST(Launch, TheTimeoutEndsTheJob) {
  LaunchOptions options = shell(2, "exec sleep 60");
  options.timeout = std::chrono::milliseconds(200);
  Launcher launcher(options);
  EXPECT_EQ(launcher.finish(), 124);
  EXPECT_THAT(launcher.err, HasSubstr("time is over"));
}

TEST(Launch, PassesASignalOn) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Launcher launcher(
        shell(1,
              "trap 'echo caught INT; exit 5' INT; trap 'echo caught TERM; exit 5' TERM; "
              "echo up; while :; do sleep 0.01; done"));
    EXPECT_EQ(launcher.read_line(), "[0] up");
    kill(launcher.process(), signal);
    EXPECT_EQ(launcher.finish(), 128 + signal);
    EXPECT_EQ(launcher.out, signal == SIGINT ? "[0] caught INT\n" : "[0] caught TERM\n");
  }
}

TEST(Launch, NoRankOutlivesAKilledLauncher) {
  LaunchOptions options = shell(3, "echo $$; exec sleep 60");
  options.label = false;  // the ranks hold our pipe themselves: its end is theirs
  Launcher launcher(options);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) ranks.push_back(std::stoi(launcher.read_line()));
  kill(launcher.process(), SIGKILL);
  EXPECT_EQ(launcher.finish(), -SIGKILL);
  EXPECT_THAT(launcher.out, Not(HasSubstr("no end")));
}

}  // namespace
}  // namespace unisono
