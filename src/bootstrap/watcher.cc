// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/watcher.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

namespace unisono {

struct Watcher::Process {
  const pid_t id = getpid();
  std::mutex mutex;
  std::unique_ptr<Watcher> watcher;
  int shares = 0;
};

// A forked child leaves its parent's alone, whose mutex some thread may have held, and makes one of
// its own.
Watcher::Process& Watcher::process() {
  static std::atomic<Process*> current = nullptr;
  Process* known = current.load();
  if (known != nullptr && known->id == getpid()) return *known;
  auto mine = std::make_unique<Process>();
  if (current.compare_exchange_strong(known, mine.get())) return *mine.release();
  return *known;  // another thread was quicker
}

Result<Watcher::Share> Watcher::share() {
  Process& process = Watcher::process();
  const std::lock_guard lock(process.mutex);
  if (process.shares == 0) {
    Socket bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell.valid()) return system_error("control: cannot make an eventfd");
    try {
      process.watcher.reset(new Watcher(process, std::move(bell)));
    } catch (const std::system_error& error) {
      return Status(StatusCode::kOutOfResources,
                    std::string("control: cannot start a thread: ") + error.what());
    }
  }
  ++process.shares;
  return Share(process.watcher.get());
}

bool Watcher::Share::is_parents() const {
  return watcher_ != nullptr && watcher_->process_.id != getpid();
}

void Watcher::Share::release() {
  Watcher* const watcher = std::exchange(watcher_, nullptr);
  if (watcher == nullptr || watcher->process_.id != getpid()) return;
  Process& process = watcher->process_;
  const std::lock_guard lock(process.mutex);
  if (--process.shares == 0) process.watcher.reset();
}

Watcher::Watcher(Process& process, Socket bell) : process_(process), bell_(std::move(bell)) {
  // The host's signals go to the host's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Watcher::~Watcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
}

void Watcher::add(Watched& watched) {
  watched_.push_back(&watched);
  ++changes_;
  wake();
}

void Watcher::remove(Watched& watched) {
  std::erase(watched_, &watched);
  ++changes_;
}

void Watcher::wake() {
  const uint64_t one = 1;
  // Full means rung.
  [[maybe_unused]] const ssize_t written = write(bell_.descriptor(), &one, sizeof(one));
}

void Watcher::run() {
  std::vector<pollfd> entries;
  std::vector<size_t> first;  // entry of each watched
  std::unique_lock lock(mutex_);
  while (!stop_) {
    entries.assign(1, {bell_.descriptor(), POLLIN, 0});
    first.clear();
    for (Watched* const each : watched_) {
      first.push_back(entries.size());
      each->list(entries);
    }
    const uint64_t changes = changes_;
    lock.unlock();
    const int ready = poll(entries.data(), entries.size(), -1);
    lock.lock();
    if (ready <= 0) continue;  // interrupted
    uint64_t rings;
    [[maybe_unused]] const ssize_t taken = read(bell_.descriptor(), &rings, sizeof(rings));
    if (changes != changes_)
      continue;  // the entries may be of those who are gone; poll() tells again
    for (size_t i = 0; i < watched_.size(); ++i) watched_[i]->serve(&entries[first[i]]);
  }
}

}  // namespace unisono
