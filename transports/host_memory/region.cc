// SPDX-License-Identifier: Apache-2.0
// Makes, maps and announces shared regions.
#include "transports/host_memory/region.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <new>

#include "base/text.h"

namespace unisono::host_memory {
namespace {

// What a memory file may hold: MemAvailable of the kernel and the limit on file sizes. A request
// beyond them must not even be tried: the kernel would push everything else out, or send SIGXFSZ.
uint64_t available_memory() {
  uint64_t available = UINT64_MAX;
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (uint64_t kib = 0; file >> name >> kib; std::getline(file, unit))
    if (name == "MemAvailable:") available = kib * 1024;
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    available = std::min<uint64_t>(available, limit.rlim_cur);
  return available;
}

Status shortage(uint64_t need) {
  return Status(
      StatusCode::kOutOfResources,
      fmt::format("shared memory: need {} bytes, have {} (UNISONO_STAGING_BYTES sets the need)",
                  format_bytes(need), format_bytes(available_memory())));
}

struct Announcements {
  std::mutex mutex;
  std::condition_variable changed;
  struct Entry {
    std::shared_ptr<Region> region;
    int takers = 0;
  };
  std::map<uint64_t, Entry> regions;

  // Waits until `ready`, called under the lock, says so; false when the deadline has passed.
  template <typename Ready>
  bool await(Deadline deadline, Ready ready) {
    std::unique_lock lock(mutex);
    while (!ready()) {
      if (deadline.passed()) return false;
      changed.wait_for(lock, deadline.left());
    }
    return true;
  }
};

Announcements& announcements() {
  static auto* const kInstance = new Announcements;  // outlives every thread
  return *kInstance;
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  Descriptor(std::move(other)).swap(*this);
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Status Mapping::map(int fd, size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED)
    return system_error(fmt::format("cannot map {} bytes of shared memory", bytes));
  data_ = static_cast<std::byte*>(data);
  bytes_ = bytes;
  return Status();
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Result<std::shared_ptr<Region>> Region::create(std::vector<int> peers, uint64_t staging_bytes,
                                               uint64_t mapped_bytes) {
  auto region = std::make_shared<Region>();
  region->peers_ = std::move(peers);
  region->geometry_ = Geometry::of(region->peers_.size(), staging_bytes, mapped_bytes);
  const uint64_t bytes = region->geometry_.region_bytes();
  if (available_memory() < bytes) return shortage(bytes);

  region->file_ = Descriptor(memfd_create("unisono", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!region->file_.valid()) return system_error("cannot create shared memory");
  int failed;
  do failed = fallocate(region->file(), 0, 0, static_cast<off_t>(bytes));
  while (failed != 0 && errno == EINTR);
  if (failed != 0 && (errno == ENOSPC || errno == ENOMEM)) return shortage(bytes);
  if (failed != 0)
    return system_error(fmt::format("cannot reserve {} bytes of shared memory", bytes));
  // Nobody who holds the file can make an access of another fault.
  if (fcntl(region->file(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("cannot seal shared memory");
  UNISONO_RETURN_IF_ERROR(region->mapping_.map(region->file(), bytes));

  // The file is zeroed, and zero is where every counter starts.
  new (region->data()) RegionHeader{region->geometry_, 0};
  return region;
}

uint32_t Region::index_of(int peer) const {
  const auto found = std::ranges::find(peers_, peer);
  assert(found != peers_.end());
  return static_cast<uint32_t>(found - peers_.begin());
}

Lent* Region::new_lent() {
  if (free_lent_ == nullptr) return &lent_.emplace_back();
  Lent* const lent = free_lent_;
  free_lent_ = lent->next;
  return lent;
}

void Region::recycle(Lent* lent) {
  lent->next = free_lent_;
  free_lent_ = lent;
}

void announce(uint64_t id, const std::shared_ptr<Region>& region) {
  Announcements& all = announcements();
  {
    const std::lock_guard lock(all.mutex);
    all.regions[id].region = region;
  }
  all.changed.notify_all();
}

std::vector<std::shared_ptr<Region>> await_regions(const std::vector<uint64_t>& ids,
                                                   Deadline deadline) {
  Announcements& all = announcements();
  std::vector<std::shared_ptr<Region>> regions(ids.size());
  all.await(deadline, [&] {
    bool complete = true;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (regions[i] != nullptr) continue;
      const auto found = all.regions.find(ids[i]);
      if (found == all.regions.end()) {
        complete = false;
        continue;
      }
      regions[i] = found->second.region;
      ++found->second.takers;
      all.changed.notify_all();
    }
    return complete;
  });
  return regions;
}

bool await_takers(uint64_t id, int takers, Deadline deadline) {
  Announcements& all = announcements();
  return all.await(deadline, [&] { return all.regions[id].takers >= takers; });
}

void withdraw(uint64_t id) {
  Announcements& all = announcements();
  const std::lock_guard lock(all.mutex);
  all.regions.erase(id);
}

}  // namespace unisono::host_memory
