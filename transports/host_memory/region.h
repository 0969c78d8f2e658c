// SPDX-License-Identifier: Apache-2.0
// Region: a rank's shared memory as its owner has it, and PeerRegion: a peer's as I see it.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "transports/host_memory/layout.h"

namespace unisono::host_memory {

// Owns a file descriptor; -1 is none.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void swap(Descriptor& other) noexcept { std::swap(fd_, other.fd_); }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

// Why mmap(2) has just failed for `what`: kOutOfResources or kSystem.
Status cannot_map(std::string_view what);

// Owns a shared mapping of a whole memory file.
class Mapping {
 public:
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  Status map(int fd, size_t bytes);
  // From there on: asks for huge pages, and enters all into the page tables. Where the kernel does not take that
  // advice, pages come one by one.
  void populate(uint64_t from);
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// An anonymous memory file, wholly backed before use, so that no access can fault. Thread peers of the owner share
// it, and may outlive the owner.
class Region {
 public:
  // `peers`: the ranks that get a pair block, in the order of the blocks.
  // Errors: kOutOfResources with need and have; kSystem.
  static Result<std::shared_ptr<Region>> create(std::vector<int> peers, uint64_t staging_bytes,
                                                uint64_t mapped_bytes);
  // No pairs, and nothing backed before reserve(). kOutOfResources also where there is no room for `copies`.
  static Result<std::shared_ptr<Region>> create_block(uint64_t mapped_bytes, int copies);

  // Backs all that is used, by this thread, with huge pages for a long block. Errors: as create().
  Status reserve();

  int file() const { return file_.get(); }
  void close_file() { file_ = Descriptor(); }  // the memory stays
  std::byte* data() const { return mapping_.data(); }
  std::byte* mapped_block() const { return data() + geometry_.mapped_offset(); }
  RegionHeader& header() const { return *reinterpret_cast<RegionHeader*>(mapping_.data()); }
  const Geometry& geometry() const { return geometry_; }
  uint32_t index_of(int peer) const;  // the block of that peer; 0 where there are no pairs
  Pair pair(int peer) const { return Pair(data(), geometry_, index_of(peer)); }

 private:
  Status back(uint64_t from, uint64_t bytes);
  static Result<std::shared_ptr<Region>> open(std::vector<int> peers, const Geometry& geometry);

  Descriptor file_;
  Mapping mapping_;
  Geometry geometry_;
  std::vector<int> peers_;
};

// A peer's region: the owner's own memory (threads), or a mapping of mine.
struct PeerRegion {
  std::shared_ptr<Region> same_process;
  Mapping mapping;
  uint32_t index = 0;  // of my block in it
  int pid = 0;
  Descriptor process;  // pidfd; none for threads

  std::byte* data() const { return same_process ? same_process->data() : mapping.data(); }
  RegionHeader& header() const { return *reinterpret_cast<RegionHeader*>(data()); }
  std::byte* mapped_block() const { return data() + header().geometry.mapped_offset(); }
  Pair pair() const { return Pair(data(), header().geometry, index); }
};

// Where threads of one process find each other's regions, by random ids. An empty region says that
// its owner has none to share. Thread-safe.
void announce(uint64_t id, const std::shared_ptr<Region>& region);
// Takes a share of each as it comes; null for those that have not come by the deadline.
std::vector<std::shared_ptr<Region>> await_regions(const std::vector<uint64_t>& ids,
                                                   Deadline deadline);
// Until so many threads have taken their share: from then on its owner may leave. False: too late.
bool await_takers(uint64_t id, int takers, Deadline deadline);
void withdraw(uint64_t id);

}  // namespace unisono::host_memory
