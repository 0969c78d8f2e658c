// SPDX-License-Identifier: Apache-2.0
// The simplest two-process all-reduces over shared memory: what bench/floor measures.
//
// Each rank writes only its own room, publishes with a growing sequence number, and reads the
// peer's.
#pragma once

#include <sched.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "bench/floor_kernels.h"

namespace unisono {

struct alignas(64) Line {
  std::atomic<uint64_t> sequence{0};
  std::atomic<uint64_t> payload{0};  // of 8 bytes at most
};

constexpr size_t kPiece = 64 << 10;  // bytes of a two-shot piece
constexpr size_t kRing = 4;          // pieces of each kind in flight

// What one rank writes and the other reads; each form has its own, at first zero.
struct Lines {
  Line exchange[2], entered, finished, copied, reduced;
};

// One side. `staging` holds, for each rank, 2 × the largest vector (one-shot) or 2 · kRing pieces.
struct Pair {
  int rank;
  Lines* lines[2];        // [rank]
  std::byte* staging[2];  // [rank]
  size_t staging_bytes;   // of one parity slot

  Lines& mine() const { return *lines[rank]; }
  Lines& peers() const { return *lines[1 - rank]; }
  // [0] is rank 0's: sums are in rank order.
  template <typename T>
  const T* pick(int of_rank, const T* own, const T* peers_value) const {
    return of_rank == rank ? own : peers_value;
  }
};

// Spins, and yields where that runs long: another program may hold the peer's CPU.
inline void wait_for(const Line& line, uint64_t sequence) {
  for (int spins = 0; line.sequence.load(std::memory_order_acquire) < sequence; ++spins) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (spins > 20000) sched_yield();
  }
}

// Both have come.
inline void meet(Line& mine, const Line& peers) {
  const uint64_t sequence = mine.sequence.load(std::memory_order_relaxed) + 1;
  mine.sequence.store(sequence, std::memory_order_release);
  wait_for(peers, sequence);
}

// One line each way with up to 8 bytes. Two lines by parity: the peer is at most one call ahead.
class LineExchange {
 public:
  static constexpr const char* kName = "line";  // up to 8 bytes
  explicit LineExchange(const Pair& pair) : pair_(pair) {}
  void operator()(const float* input, float* output, size_t count) {
    ++sequence_;
    Line& mine = pair_.mine().exchange[sequence_ % 2];
    const Line& peers = pair_.peers().exchange[sequence_ % 2];
    uint64_t bits = 0;
    std::memcpy(&bits, input, count * sizeof(float));
    mine.payload.store(bits, std::memory_order_relaxed);
    mine.sequence.store(sequence_, std::memory_order_release);
    wait_for(peers, sequence_);
    const uint64_t peers_bits = peers.payload.load(std::memory_order_relaxed);
    float theirs[2];
    std::memcpy(theirs, &peers_bits, sizeof theirs);
    for (size_t i = 0; i < count; ++i) output[i] = input[i] + theirs[i];
  }

 private:
  const Pair pair_;
  uint64_t sequence_ = 0;
};

// A line there and back: two hand-offs.
class RoundTrip {
 public:
  static constexpr const char* kName = "hand_off_round_trip";
  explicit RoundTrip(const Pair& pair) : pair_(pair) {}
  void operator()(const float*, float*, size_t) {
    ++sequence_;
    if (pair_.rank == 1) wait_for(pair_.peers().entered, sequence_);
    pair_.mine().entered.sequence.store(sequence_, std::memory_order_release);
    if (pair_.rank == 0) wait_for(pair_.peers().entered, sequence_);
  }

 private:
  const Pair pair_;
  uint64_t sequence_ = 0;
};

// Both ranks at once, each in memory of its own: output = input, output = input + other.
template <bool kAdds, Stores kStores>
class Stream {
 public:
  static constexpr const char* kName =
      kAdds ? (kStores == Stores::kNormal ? "stream_add" : "stream_add_nt")
            : (kStores == Stores::kNormal ? "stream_copy" : "stream_copy_nt");
  explicit Stream(const float* other) : other_(other) {}
  void operator()(const float* input, float* output, size_t count) {
    if constexpr (kAdds)
      floor_add(input, other_, {output, kStores}, {}, count);
    else
      floor_copy(input, output, count, kStores);
  }

 private:
  const float* other_;  // the second input of an addition
};

// Copy my input into staging, flag, reduce with the peer's.
template <Stores kStores>
class PrivateOneShot {
 public:
  static constexpr const char* kName =
      kStores == Stores::kNormal ? "private_one_shot" : "private_one_shot_nt";
  explicit PrivateOneShot(const Pair& pair) : pair_(pair) {}
  void operator()(const float* input, float* output, size_t count) {
    ++sequence_;
    const size_t at = sequence_ % 2 * pair_.staging_bytes;
    auto* slot = reinterpret_cast<float*>(pair_.staging[pair_.rank] + at);
    const auto* peers = reinterpret_cast<const float*>(pair_.staging[1 - pair_.rank] + at);
    floor_copy(input, slot, count, Stores::kNormal);
    pair_.mine().copied.sequence.store(sequence_, std::memory_order_release);
    wait_for(pair_.peers().copied, sequence_);
    floor_add(pair_.pick(0, input, peers), pair_.pick(1, input, peers), {output, kStores}, {},
              count);
  }

 private:
  const Pair pair_;
  uint64_t sequence_ = 0;
};

// Each rank reduces its half, piece by piece: copy in k, reduce k−1, copy out k−2.
template <Stores kStores>
class PrivateTwoShot {
 public:
  static constexpr const char* kName =
      kStores == Stores::kNormal ? "private_two_shot" : "private_two_shot_nt";
  explicit PrivateTwoShot(const Pair& pair) : pair_(pair) {}
  void operator()(const float* input, float* output, size_t count) {
    constexpr size_t kElements = kPiece / sizeof(float);
    // Halves meet at a multiple of a cache line where there are several lines.
    const size_t middle = count >= 32 ? count / 2 / 16 * 16 : count / 2;
    const size_t pieces = (count - middle + kElements - 1) / kElements;
    const auto range = [&](int half, size_t piece) {
      const size_t end = half == 0 ? middle : count;
      const size_t begin = std::min((half == 0 ? 0 : middle) + piece * kElements, end);
      return std::pair(begin, std::min(begin + kElements, end) - begin);
    };
    Lines &mine = pair_.mine(), &peers = pair_.peers();
    const int rank = pair_.rank, peer = 1 - rank;
    for (size_t k = 0; k < pieces + 2; ++k) {
      if (k < pieces) {
        const auto [begin, length] = range(peer, k);
        floor_copy(input + begin, slot(rank, 0, k), length, Stores::kNormal);
        mine.copied.sequence.store(done_ + k + 1, std::memory_order_release);
      }
      if (k >= 1 && k <= pieces) {
        const auto [begin, length] = range(rank, k - 1);
        wait_for(peers.copied, done_ + k);
        const float *own = input + begin, *theirs = slot(peer, 0, k - 1);
        floor_add(pair_.pick(0, own, theirs), pair_.pick(1, own, theirs), {output + begin, kStores},
                  {slot(rank, 1, k - 1), Stores::kNormal}, length);
        mine.reduced.sequence.store(done_ + k, std::memory_order_release);
      }
      if (k >= 2) {
        const auto [begin, length] = range(peer, k - 2);
        wait_for(peers.reduced, done_ + k - 1);
        floor_copy(slot(peer, 1, k - 2), output + begin, length, kStores);
      }
    }
    done_ += pieces;
  }

 private:
  // kind 0: input for the peer; 1: results. A slot is free again: to have come to piece k, I waited
  // for results k−3 and, before my results k−1, for input k−1, both sent after the peer read the
  // slot's last use.
  float* slot(int of_rank, size_t kind, size_t piece) const {
    const size_t index = kind * kRing + (done_ + piece) % kRing;
    return reinterpret_cast<float*>(pair_.staging[of_rank] + index * kPiece);
  }
  const Pair pair_;
  uint64_t done_ = 0;  // pieces of all calls so far
};

// The peer's memory of the same length at `from`, through the kernel. False: it does not allow that.
inline bool read_peer(pid_t peer, const float* from, float* to, size_t count) {
  const iovec here{to, count * sizeof(float)};
  const iovec there{const_cast<float*>(from), here.iov_len};
  return process_vm_readv(peer, &here, 1, &there, 1, 0) == static_cast<ssize_t>(here.iov_len);
}

// Nothing is staged: each rank reads the peer's input of its half piece by piece, reduces, and then reads the other
// half of the output from the peer's.
class PrivateRead {
 public:
  static constexpr const char* kName = "private_read";
  explicit PrivateRead(const Pair& pair) : pair_(pair), scratch_(kPiece / sizeof(float)) {
    // Where yama asks for it, the peer may read me.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    pair.mine().exchange[0].payload.store(static_cast<uint64_t>(getpid()), std::memory_order_relaxed);
  }
  void operator()(const float* input, float* output, size_t count) {
    Lines &mine = pair_.mine(), &peers = pair_.peers();
    mine.copied.payload.store(reinterpret_cast<uintptr_t>(input), std::memory_order_relaxed);
    mine.reduced.payload.store(reinterpret_cast<uintptr_t>(output), std::memory_order_relaxed);
    meet(mine.entered, peers.entered);
    const auto peer = static_cast<pid_t>(peers.exchange[0].payload.load(std::memory_order_relaxed));
    const auto address = [](const Line& line) {
      return reinterpret_cast<const float*>(line.payload.load(std::memory_order_relaxed));
    };
    const float *theirs = address(peers.copied), *result = address(peers.reduced);
    const size_t middle = count >= 32 ? count / 2 / 16 * 16 : count / 2;
    const size_t begin = pair_.rank == 0 ? 0 : middle, end = pair_.rank == 0 ? middle : count;
    for (size_t at = begin; at < end; at += scratch_.size()) {
      const size_t length = std::min(scratch_.size(), end - at);
      allowed_ = read_peer(peer, theirs + at, scratch_.data(), length) && allowed_;
      const float *own = input + at, *other = scratch_.data();
      floor_add(pair_.pick(0, own, other), pair_.pick(1, own, other), {output + at, Stores::kNormal}, {}, length);
    }
    meet(mine.reduced, peers.reduced);
    const size_t first = pair_.rank == 0 ? middle : 0, length = count - (end - begin);
    allowed_ = read_peer(peer, result + first, output + first, length) && allowed_;
    meet(mine.finished, peers.finished);
  }
  bool allowed() const { return allowed_; }

 private:
  const Pair pair_;
  std::vector<float> scratch_;
  bool allowed_ = true;
};

// All buffers are shared: each reduces its half, reading two and writing two.
template <Stores kStores>
class Mapped {
 public:
  static constexpr const char* kName = kStores == Stores::kNormal ? "mapped" : "mapped_nt";
  // `to_peer`: from an address in my buffers to the same one in the peer's.
  Mapped(const Pair& pair, std::ptrdiff_t to_peer) : pair_(pair), to_peer_(to_peer) {}
  void operator()(const float* input, float* output, size_t count) {
    meet(pair_.mine().entered, pair_.peers().entered);
    const size_t middle = count >= 32 ? count / 2 / 16 * 16 : count / 2;
    const size_t begin = pair_.rank == 0 ? 0 : middle;
    const size_t end = pair_.rank == 0 ? middle : count;
    const float *own = input + begin, *theirs = own + to_peer_;
    floor_add(pair_.pick(0, own, theirs), pair_.pick(1, own, theirs), {output + begin, kStores},
              {output + begin + to_peer_, kStores}, end - begin);
    meet(pair_.mine().finished, pair_.peers().finished);
  }

 private:
  const Pair pair_;
  std::ptrdiff_t to_peer_;  // in floats
};

}  // namespace unisono
