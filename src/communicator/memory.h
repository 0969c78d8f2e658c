// SPDX-License-Identifier: Apache-2.0
// SymmetricMemory: memory for the buffers of callers, of which every rank gets a block of the same size.
//
// Where the ranks of a communicator are processes of one host, all map all blocks. Elsewhere a block is ordinary
// memory, so that programs work everywhere; between threads that is mapped by nature.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "communicator/round.h"
#include "direct/memory.h"
#include "transport/transport.h"

namespace unisono {

// The one book of what is allocated. A block is made, kept, found, and removed. One thread at a time; what calls
// see changes in keep() and remove() only.
class SymmetricMemory {
 public:
  struct Unmap {
    size_t bytes;
    void operator()(std::byte* memory) const;
  };
  struct Block {
    uint32_t number = 0;  // the same on all ranks
    size_t bytes = 0;
    std::byte* mine = nullptr;
    std::unique_ptr<SharedMemory> shared;        // mapped by all; or
    std::unique_ptr<std::byte, Unmap> ordinary;  // by this rank only
  };

  // `transport` joins all ranks and maps memory, or is null. Calls look up `places`, which outlives this.
  SymmetricMemory(int rank, Transport* transport, DirectMemory& places, Gather gather)
      : rank_(rank), transport_(transport), places_(places), gather_(std::move(gather)) {}

  // Collective. A failure is the same on all ranks, and changes nothing: kOutOfResources with need and have,
  // kMismatch; but for the failures of `gather`.
  Result<std::unique_ptr<Block>> make(size_t bytes, Deadline deadline) const;
  // What make() has made since the last change; its begin.
  std::byte* keep(std::unique_ptr<Block> block);
  // The block that begins at `memory`. kInvalidArgument.
  Result<const Block*> find(const void* memory) const;
  // Collective: that all ranks remove the same block. kMismatch on all ranks, or the failure of `gather`.
  Status agree_to_remove(const Block& block) const;
  // Local; frees it.
  void remove(const Block& block);

 private:
  bool maps() const { return transport_ != nullptr && !transport_->one_process(); }
  uint32_t lowest_free_number() const;
  Status create(Block& block) const;

  const int rank_;
  Transport* const transport_;
  DirectMemory& places_;
  const Gather gather_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace unisono
