// SPDX-License-Identifier: Apache-2.0
#include "communicator/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/pack.h"
#include "base/text.h"
#include "direct/memory.h"

namespace unisono {
namespace {

// What only this rank maps.
class OrdinaryMemory final : public SharedMemory {
 public:
  static Result<std::unique_ptr<SharedMemory>> create(size_t bytes) {
    auto memory = std::make_unique<OrdinaryMemory>();
    void* const data =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
      return Status(StatusCode::kOutOfResources,
                    fmt::format("cannot get {} bytes of memory: {}", bytes, std::strerror(errno)));
    memory->data_ = static_cast<std::byte*>(data);
    memory->bytes_ = bytes;
    (void)madvise(data, bytes, MADV_HUGEPAGE);
    return std::unique_ptr<SharedMemory>(std::move(memory));
  }
  ~OrdinaryMemory() override {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  std::string address() const override { return {}; }
  Status reserve() override { return Status(); }  // the kernel gives pages as they are touched
  Status connect(std::span<const PeerAddress>, Deadline) override { return Status(); }
  std::span<std::byte* const> blocks() const override { return {&data_, 1}; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// What a rank says in a round: what it does, and how that went.
struct Said {
  std::string deed;
  Status status;
  std::string detail;
};

Result<std::vector<Said>> exchange(const SymmetricMemory::Gather& gather, const std::string& deed,
                                   const Status& status, const std::string& detail = {}) {
  const std::string fields[] = {deed, std::to_string(static_cast<int>(status.code())),
                                std::string(status.message()), detail};
  const auto gathered = gather(pack(fields));
  if (!gathered.ok()) return gathered.status();
  std::vector<Said> all;
  for (const std::string& bytes : *gathered) {
    const auto said = unpack(bytes, 4);
    const auto code = said ? parse_integer((*said)[1]) : std::nullopt;
    // Whoever gathers something else says so in other words.
    all.push_back(
        code ? Said{(*said)[0], Status(static_cast<StatusCode>(*code), (*said)[2]), (*said)[3]}
             : Said{"does something else", {}, {}});
  }
  return all;
}

// The same answer on all ranks: that all do the same, and that nobody has failed.
Status common_status(const std::vector<Said>& all) {
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank].deed != all[0].deed)
      return Status(StatusCode::kMismatch,
                    fmt::format("rank 0 {}, rank {} {}", all[0].deed, rank, all[rank].deed));
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].status.ok()) return all[rank].status.in(fmt::format("rank {}", rank));
  return Status();
}

}  // namespace

uint32_t SymmetricMemory::lowest_free_number() const {
  std::vector<bool> used(blocks_.size() + 1);  // one of so many is free
  for (const auto& block : blocks_)
    if (block->number < used.size()) used[block->number] = true;
  return static_cast<uint32_t>(std::ranges::find(used, false) - used.begin());
}

Result<const SymmetricMemory::Block*> SymmetricMemory::allocate(size_t bytes, const Gather& gather,
                                                                Deadline deadline) {
  auto block = std::make_unique<Block>();
  block->bytes = bytes;
  block->number = lowest_free_number();
  block->mapped = transport_ != nullptr && !transport_->one_process();
  Status status;
  if (bytes > DirectMemory::kMostBytes || block->number >= DirectMemory::kMostAllocations) {
    status =
        Status(StatusCode::kOutOfResources,
               fmt::format("memory of {} bytes: expected at most {}, in at most {} allocations",
                           bytes, DirectMemory::kMostBytes, DirectMemory::kMostAllocations));
  } else {
    auto made = block->mapped ? transport_->share(bytes) : OrdinaryMemory::create(bytes);
    status = made.status();
    if (made.ok()) block->memory = made.take();
  }
  const std::string deed = fmt::format("allocates {} bytes, {}", bytes,
                                       block->mapped ? "mapped by all" : "ordinary memory");
  const auto told = exchange(gather, deed, status, status.ok() ? block->memory->address() : "");
  if (!told.ok()) return told.status();
  UNISONO_RETURN_IF_ERROR(common_status(*told));

  const auto reserved = exchange(gather, deed, block->memory->reserve());
  if (!reserved.ok()) return reserved.status();
  UNISONO_RETURN_IF_ERROR(common_status(*reserved));

  if (block->mapped) {
    std::vector<PeerAddress> peers;
    for (int rank = 0; rank < static_cast<int>(told->size()); ++rank)
      if (rank != rank_) peers.push_back({rank, (*told)[static_cast<size_t>(rank)].detail});
    const auto connected = exchange(gather, deed, block->memory->connect(peers, deadline));
    if (!connected.ok()) return connected.status();
    UNISONO_RETURN_IF_ERROR(common_status(*connected));
  }
  block->mine = block->memory->blocks()[block->mapped ? static_cast<size_t>(rank_) : 0];
  blocks_.push_back(std::move(block));
  return blocks_.back().get();
}

Result<const SymmetricMemory::Block*> SymmetricMemory::find(const void* memory) const {
  const auto* const address = static_cast<const std::byte*>(memory);
  for (const auto& block : blocks_) {
    if (block->mine == address) return block.get();
    if (std::less<>()(block->mine, address) && std::less<>()(address, block->mine + block->bytes))
      return invalid_argument(
          fmt::format("memory lies {} bytes into an allocation: expected its beginning",
                      address - block->mine));
  }
  return invalid_argument("memory was not allocated on this communicator, or has been freed");
}

Status SymmetricMemory::agree_to_free(const Block& block, const Gather& gather) const {
  const auto told = exchange(
      gather, fmt::format("frees allocation {} of {} bytes", block.number, block.bytes), Status());
  return told.ok() ? common_status(*told) : told.status();
}

void SymmetricMemory::free(const Block& block) {
  std::erase_if(blocks_, [&](const auto& each) { return each.get() == &block; });
}

}  // namespace unisono
