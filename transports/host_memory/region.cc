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
#include <map>
#include <mutex>
#include <new>

#include "base/text.h"
#include "topology/host.h"

namespace unisono::host_memory {
namespace {

constexpr int kMadvPopulateWrite = 23;  // MADV_POPULATE_WRITE of Linux 5.14, which older headers lack

// What a memory file may hold. A request beyond it must not even be tried: the kernel would push everything else
// out, or send SIGXFSZ.
uint64_t most_shared_memory() {
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return std::min<uint64_t>(available_memory(), limited ? limit.rlim_cur : UINT64_MAX);
}

Status shortage(const Geometry& geometry, uint64_t need) {
  return Status(StatusCode::kOutOfResources,
                fmt::format("shared memory: need {} bytes, have {}{}", format_bytes(need),
                            format_bytes(most_shared_memory()),
                            geometry.pairs > 0 ? " (UNISONO_STAGING_BYTES sets the need)" : ""));
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

Status cannot_map(std::string_view what) {
  if (errno != ENOMEM) return system_error(fmt::format("cannot map {}", what));
  return Status(StatusCode::kOutOfResources,
                fmt::format("cannot map {}: out of addresses, or more mappings than vm.max_map_count", what));
}

Status Mapping::map(int fd, size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED)
    return cannot_map(fmt::format("{} bytes of shared memory", bytes));
  data_ = static_cast<std::byte*>(data);
  bytes_ = bytes;
  return Status();
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

void Mapping::populate(uint64_t from) {
  if (from >= bytes_) return;
  (void)madvise(data_ + from, bytes_ - from, MADV_HUGEPAGE);
  (void)madvise(data_ + from, bytes_ - from, kMadvPopulateWrite);
}

Result<std::shared_ptr<Region>> Region::create(std::vector<int> peers, uint64_t staging_bytes,
                                               uint64_t mapped_bytes) {
  const Geometry geometry = Geometry::of(peers.size(), staging_bytes, mapped_bytes);
  auto region = open(std::move(peers), geometry);
  if (region.ok()) UNISONO_RETURN_IF_ERROR((*region)->reserve());
  return region;
}

Result<std::shared_ptr<Region>> Region::create_block(uint64_t mapped_bytes, int copies) {
  const Geometry geometry = Geometry::of(0, 0, mapped_bytes);
  const uint64_t need = geometry.region_bytes();
  if (most_shared_memory() / static_cast<uint64_t>(copies) < need)
    return shortage(geometry, need * static_cast<uint64_t>(copies));
  return open({}, geometry);
}

Result<std::shared_ptr<Region>> Region::open(std::vector<int> peers, const Geometry& geometry) {
  auto region = std::make_shared<Region>();
  region->peers_ = std::move(peers);
  region->geometry_ = geometry;
  const uint64_t bytes = geometry.region_bytes();
  if (most_shared_memory() < bytes) return shortage(geometry, bytes);

  region->file_ = Descriptor(memfd_create("unisono", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!region->file_.valid()) return system_error("cannot create shared memory");
  if (ftruncate(region->file(), static_cast<off_t>(bytes)) != 0)
    return system_error(fmt::format("cannot make shared memory of {} bytes", bytes));
  // Nobody who holds the file can make an access of another fault.
  if (fcntl(region->file(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("cannot seal shared memory");
  UNISONO_RETURN_IF_ERROR(region->mapping_.map(region->file(), bytes));
  return region;
}

Status Region::back(uint64_t from, uint64_t bytes) {
  if (bytes == 0) return Status();
  int failed;
  do failed = fallocate(file(), 0, static_cast<off_t>(from), static_cast<off_t>(bytes));
  while (failed != 0 && errno == EINTR);
  if (failed == 0) return Status();
  if (errno == ENOSPC || errno == ENOMEM) return shortage(geometry_, geometry_.region_bytes());
  return system_error(fmt::format("cannot reserve {} bytes of shared memory", geometry_.region_bytes()));
}

Status Region::reserve() {
  const uint64_t block = geometry_.mapped_offset();
  if (geometry_.pairs > 0) {
    UNISONO_RETURN_IF_ERROR(back(0, geometry_.region_bytes()));
  } else {
    mapping_.populate(block);  // huge pages come with touching only
    UNISONO_RETURN_IF_ERROR(back(0, sizeof(RegionHeader)));
    UNISONO_RETURN_IF_ERROR(back(block, geometry_.mapped_bytes));
  }
  // The file is zeroed, and zero is where every counter starts.
  new (data()) RegionHeader{geometry_, 0};
  return Status();
}

uint32_t Region::index_of(int peer) const {
  if (peers_.empty()) return 0;
  const auto found = std::ranges::find(peers_, peer);
  assert(found != peers_.end());
  return static_cast<uint32_t>(found - peers_.begin());
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
