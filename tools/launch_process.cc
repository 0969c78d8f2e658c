// SPDX-License-Identifier: Apache-2.0
#include "tools/launch_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace unisono {
namespace {

constexpr int kReadsAtOnce =
    8;  // more than a pipe holds; one rank must not keep us from the others
constexpr size_t kLongestLine = size_t{1} << 20;  // a longer one is broken

constexpr int kMostCpus = 8192;
constexpr int kBitsPerWord = 8 * sizeof(unsigned long);

void write_all(int sink, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(sink, text.data(), text.size());
    if (written < 0 && errno == EAGAIN) {
      pollfd room{sink, POLLOUT, 0};
      poll(&room, 1, -1);
    } else if (written < 0 && errno != EINTR) {
      return;  // nobody reads us any more
    }
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

// Fits every CPU number that the kernel knows. Between fork and exec, so nothing is allocated.
bool bind_to(const std::vector<int>& cpus) {
  if (cpus.empty()) return true;
  unsigned long mask[kMostCpus / kBitsPerWord] = {};
  for (const int cpu : cpus)
    if (cpu < kMostCpus) mask[cpu / kBitsPerWord] |= 1ul << (cpu % kBitsPerWord);
  return sched_setaffinity(0, sizeof mask, reinterpret_cast<const cpu_set_t*>(mask)) == 0;
}

// Between fork and exec: only system calls. Returns only if something failed; errno says what.
void become(const ProcessOptions& options, char* const* argv, char* const* environment,
            pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return;
  if (getppid() != parent) _exit(128 + SIGKILL);  // it died before we could ask to follow
  if (options.own_group && setpgid(0, 0) != 0) return;
  if (!bind_to(options.cpus)) return;
  if (!options.reads_input) {
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) return;
  }
  if (options.out >= 0 && dup2(options.out, STDOUT_FILENO) < 0) return;
  if (options.err >= 0 && dup2(options.err, STDERR_FILENO) < 0) return;
  if (sigprocmask(SIG_SETMASK, &options.signal_mask, nullptr) != 0) return;
  execvpe(argv[0], argv, environment);
}

}  // namespace

LabelledOutput::~LabelledOutput() {
  if (source_ >= 0) close(source_);
}

void LabelledOutput::pass_lines() {
  std::string text;
  size_t begin = 0;
  for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1)
    text += label_ + pending_.substr(begin, end + 1 - begin);
  pending_.erase(0, begin);
  if (pending_.size() > kLongestLine) text += label_ + std::exchange(pending_, {}) + '\n';
  write_all(sink_, text);
}

void LabelledOutput::drain() {
  char buffer[16384];
  for (int reads = 0; reads < kReadsAtOnce && source_ >= 0; ++reads) {
    const ssize_t got = read(source_, buffer, sizeof(buffer));
    if (got > 0) {
      pending_.append(buffer, static_cast<size_t>(got));
      pass_lines();
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      finish();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

void LabelledOutput::finish() {
  if (!pending_.empty()) pending_ += '\n';
  pass_lines();
  if (source_ >= 0) close(std::exchange(source_, -1));
}

pid_t start_process(const ProcessOptions& options) {
  const std::vector<char*> argv = pointers(options.argv),
                           environment = pointers(options.environment);
  int report[2];  // carries errno if the program cannot be started, and just ends otherwise
  if (pipe2(report, O_CLOEXEC) != 0) return -1;
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process == 0) {
    become(options, argv.data(), environment.data(), parent);
    const int error = errno;
    [[maybe_unused]] const ssize_t told = write(report[1], &error, sizeof(error));
    _exit(127);
  }
  int error = process < 0 ? errno : 0;
  close(report[1]);
  if (process > 0) {
    ssize_t got;
    do got = read(report[0], &error, sizeof(error));
    while (got < 0 && errno == EINTR);
    if (got > 0)
      while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
      }
    if (got <= 0) error = 0;
  }
  close(report[0]);
  errno = error;
  return error == 0 ? process : -1;
}

}  // namespace unisono
