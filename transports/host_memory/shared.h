// SPDX-License-Identifier: Apache-2.0
// Memory for callers' buffers, of which every rank of a host owns a block that all others map.
#pragma once

#include <memory>
#include <string>

#include "transport/transport.h"

namespace unisono::host_memory {

// A block of `bytes` of mine, not yet backed. Errors: kOutOfResources where the host has no room
// for one of each of `ranks`; kSystem.
Result<std::unique_ptr<SharedMemory>> create_shared(int rank, int ranks,
                                                    const std::string& job_token, size_t bytes);

}  // namespace unisono::host_memory
