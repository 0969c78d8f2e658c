// SPDX-License-Identifier: Apache-2.0
// Watcher: the one thread of a process that serves the control connections of all its
// communicators. It sleeps in the kernel, and exists only while there are some.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "bootstrap/socket.h"

namespace unisono {

// What the thread serves. Every function is called with the watcher's mutex held.
class Watched {
 public:
  virtual ~Watched() = default;
  // Appends what poll() is to wait for; a negative descriptor for nothing.
  virtual void list(std::vector<pollfd>& entries) = 0;
  // What has come of these entries. By the watcher's thread.
  virtual void serve(const pollfd* entries) = 0;
};

class Watcher {
 public:
  // A share in the process's watcher; the first one starts the thread, the last one ends it. In a
  // child that was forked meanwhile it does nothing: the thread is the parent's. kOutOfResources
  // when there can be no thread.
  class Share {
   public:
    Share() = default;
    explicit Share(Watcher* watcher) : watcher_(watcher) {}
    Share(Share&& other) noexcept : watcher_(std::exchange(other.watcher_, nullptr)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(watcher_, other.watcher_);
      return *this;
    }
    ~Share() { release(); }

    Watcher* operator->() const { return watcher_; }
    bool is_parents() const;  // I am a forked child
    void release();

   private:
    Watcher* watcher_ = nullptr;
  };
  static Result<Share> share();

  ~Watcher();

  // Held while the watched are called, so whoever holds it has them for himself.
  std::mutex& mutex() { return mutex_; }
  // With the mutex held. After remove() the watcher knows it no more.
  void add(Watched& watched);
  void remove(Watched& watched);
  // What list() says has changed. Any thread.
  void wake();

 private:
  struct Process;  // the watcher of this process, and how many shares there are

  Watcher(Process& process, Socket bell);
  static Process& process();
  void run();

  Process& process_;
  const Socket bell_;  // an eventfd
  std::mutex mutex_;
  std::vector<Watched*> watched_;
  uint64_t changes_ = 0;  // of watched_
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace unisono
