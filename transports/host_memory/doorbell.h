// SPDX-License-Identifier: Apache-2.0
// Sleeping on, and ringing, a word in shared memory (futex(2), shared between processes).
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

namespace unisono::host_memory {

// Sleeps while `word` is `value`, at most `longest`; may also return early.
inline void futex_wait(std::atomic<uint32_t>& word, uint32_t value,
                       std::chrono::nanoseconds longest) {
  timespec timeout;
  timeout.tv_sec = longest.count() / 1'000'000'000;
  timeout.tv_nsec = longest.count() % 1'000'000'000;
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

// After a store that the owner of `asleep` may wait for: sequentially consistent, or with a fence in
// between. The owner stores "asleep" and then looks for news behind a fence too: one of the two sees the other.
// A system call only when it sleeps, and only by the first who finds it asleep.
inline void ring(std::atomic<uint32_t>& asleep) {
  if (asleep.load(std::memory_order_seq_cst) == 0) return;
  if (asleep.exchange(0, std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, &asleep, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace unisono::host_memory
