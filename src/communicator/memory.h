// SPDX-License-Identifier: Apache-2.0
// SymmetricMemory: memory for the buffers of callers, of which every rank gets a block of the same
// size.
//
// Where the ranks of a communicator are processes of one host, all map all blocks. Elsewhere a
// block is ordinary memory, so that programs work everywhere; between threads that is mapped by
// nature.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "transport/transport.h"

namespace unisono {

// One thread at a time.
class SymmetricMemory {
 public:
  // Collective: every rank's bytes, by rank.
  using Gather = std::function<Result<std::vector<std::string>>(std::string_view mine)>;
  struct Block {
    std::byte* mine = nullptr;
    size_t bytes = 0;
    uint32_t number = 0;  // the same on all ranks
    std::unique_ptr<SharedMemory> memory;
    bool mapped = false;  // memory->blocks() are those of all ranks
  };

  // `transport` joins all ranks and maps memory, or is null.
  SymmetricMemory(int rank, Transport* transport) : rank_(rank), transport_(transport) {}

  // Collective. A failure is the same on all ranks, and changes nothing: kOutOfResources with need
  // and have, kMismatch; but for kInvalidArgument, and for the failures of `gather`. The block
  // stays this object's.
  Result<const Block*> allocate(size_t bytes, const Gather& gather, Deadline deadline);
  // The block that begins at `memory`. kInvalidArgument.
  Result<const Block*> find(const void* memory) const;
  // Collective: that all ranks free the same block. kMismatch on all ranks, or the failure of
  // `gather`.
  Status agree_to_free(const Block& block, const Gather& gather) const;
  // Local.
  void free(const Block& block);

 private:
  uint32_t lowest_free_number() const;

  const int rank_;
  Transport* const transport_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace unisono
