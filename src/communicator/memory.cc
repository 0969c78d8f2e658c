// SPDX-License-Identifier: Apache-2.0
#include "communicator/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace unisono {
namespace {

// Pages come as they are touched.
Result<std::byte*> map_ordinary(size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return Status(StatusCode::kOutOfResources,
                  fmt::format("cannot get {} bytes of memory: {}", bytes, std::strerror(errno)));
  (void)madvise(data, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(data);
}

// The reports of all ranks, if none has failed.
Result<std::vector<RankReport>> all_succeed(const Gather& gather, const RankReport& mine) {
  auto all = report_to_all(gather, mine);
  if (!all.ok()) return all;
  const int rank = first_failed(*all);
  return rank < 0 ? all : (*all)[static_cast<size_t>(rank)].status.in(fmt::format("rank {}", rank));
}

}  // namespace

void SymmetricMemory::Unmap::operator()(std::byte* memory) const {
  munmap(memory, bytes);
}

uint32_t SymmetricMemory::lowest_free_number() const {
  std::vector<bool> used(blocks_.size() + 1);  // one of so many is free
  for (const auto& block : blocks_)
    if (block->number < used.size()) used[block->number] = true;
  return static_cast<uint32_t>(std::ranges::find(used, false) - used.begin());
}

Status SymmetricMemory::create(Block& block) const {
  if (block.bytes > DirectMemory::kMostBytes || block.number >= DirectMemory::kMostAllocations)
    return Status(StatusCode::kOutOfResources,
                  fmt::format("memory of {} bytes: expected at most {}, in at most {} allocations", block.bytes,
                              DirectMemory::kMostBytes, DirectMemory::kMostAllocations));
  if (maps()) {
    auto shared = transport_->share(block.bytes);
    if (!shared.ok()) return shared.status();
    block.shared = shared.take();
  } else {
    const auto ordinary = map_ordinary(block.bytes);
    if (!ordinary.ok()) return ordinary.status();
    block.mine = *ordinary;
    block.ordinary = {*ordinary, Unmap{block.bytes}};
  }
  return Status();
}

Result<std::unique_ptr<SymmetricMemory::Block>> SymmetricMemory::make(size_t bytes, Deadline deadline) const {
  auto block = std::make_unique<Block>();
  block->number = lowest_free_number();
  block->bytes = bytes;
  const std::string deed =
      fmt::format("allocates {} bytes, {}", bytes, maps() ? "mapped by all" : "ordinary memory");
  const Status created = create(*block);
  const auto all = all_succeed(gather_, {deed, created, block->shared ? block->shared->address() : ""});
  if (!all.ok()) return all.status();
  if (block->shared == nullptr) return block;

  UNISONO_RETURN_IF_ERROR(all_succeed(gather_, {deed, block->shared->reserve()}).status());
  std::vector<PeerAddress> peers;
  for (int rank = 0; rank < static_cast<int>(all->size()); ++rank)
    if (rank != rank_) peers.push_back({rank, (*all)[static_cast<size_t>(rank)].detail});
  UNISONO_RETURN_IF_ERROR(all_succeed(gather_, {deed, block->shared->connect(peers, deadline)}).status());
  block->mine = block->shared->blocks()[static_cast<size_t>(rank_)];
  return block;
}

std::byte* SymmetricMemory::keep(std::unique_ptr<Block> block) {
  if (block->shared != nullptr) places_.add(block->number, block->shared->blocks(), block->bytes);
  blocks_.push_back(std::move(block));
  return blocks_.back()->mine;
}

Result<const SymmetricMemory::Block*> SymmetricMemory::find(const void* memory) const {
  const auto* const address = static_cast<const std::byte*>(memory);
  for (const auto& block : blocks_) {
    if (block->mine == address) return block.get();
    if (std::less<>()(block->mine, address) && std::less<>()(address, block->mine + block->bytes))
      return invalid_argument(fmt::format("memory lies {} bytes into an allocation: expected its beginning",
                                          address - block->mine));
  }
  return invalid_argument("memory was not allocated on this communicator, or has been freed");
}

Status SymmetricMemory::agree_to_remove(const Block& block) const {
  return all_succeed(gather_, {fmt::format("frees allocation {} of {} bytes", block.number, block.bytes), {}})
      .status();
}

void SymmetricMemory::remove(const Block& block) {
  if (block.shared != nullptr) places_.remove(block.number);
  std::erase_if(blocks_, [&](const auto& each) { return each.get() == &block; });
}

}  // namespace unisono
