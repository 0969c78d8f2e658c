// SPDX-License-Identifier: Apache-2.0
#include "transports/host_memory/shared.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "transports/host_memory/exchange.h"

namespace unisono::host_memory {
namespace {

class Shared final : public SharedMemory {
 public:
  Shared(Identity identity, int ranks, Handshake handshake, std::shared_ptr<Region> region)
      : identity_(std::move(identity)),
        handshake_(std::move(handshake)),
        region_(std::move(region)),
        blocks_(static_cast<size_t>(ranks)) {
    blocks_[static_cast<size_t>(identity_.rank)] = region_->mapped_block();
  }

  std::string address() const override { return identity_.address.bytes(); }
  std::span<std::byte* const> blocks() const override { return blocks_; }

  Status reserve() override { return region_->reserve(); }

  Status connect(std::span<const PeerAddress> peers, Deadline deadline) override {
    auto found = exchange_regions(identity_, *handshake_, region_, peers, deadline);
    handshake_.reset();
    if (!found.ok()) return found.status();
    for (auto& [peer, region] : *found) {
      region->process = Descriptor();
      region->mapping.populate(region->header().geometry.mapped_offset());
      blocks_[static_cast<size_t>(peer)] = region->mapped_block();
      peers_.push_back(std::move(region));
    }
    return Status();
  }

 private:
  const Identity identity_;
  std::optional<Handshake> handshake_;  // until connected
  const std::shared_ptr<Region> region_;
  std::vector<std::unique_ptr<PeerRegion>> peers_;
  std::vector<std::byte*> blocks_;
};

}  // namespace

Result<std::unique_ptr<SharedMemory>> create_shared(int rank, int ranks,
                                                    const std::string& job_token, size_t bytes) {
  const Result<Address> address = Address::mine();
  if (!address.ok()) return address.status();
  Result<Handshake> handshake = Handshake::listen(*address);
  if (!handshake.ok()) return handshake.status();
  auto region = Region::create_block(bytes, ranks);
  if (!region.ok()) return region.status();
  return std::unique_ptr<SharedMemory>(std::make_unique<Shared>(
      Identity{rank, job_token, *address}, ranks, handshake.take(), region.take()));
}

}  // namespace unisono::host_memory
