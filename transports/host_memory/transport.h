// SPDX-License-Identifier: Apache-2.0
// host_memory: ranks of one host, as processes or as threads, through shared memory.
#pragma once

#include "transport/transport.h"

namespace unisono {

Result<std::unique_ptr<Transport>> create_host_memory(const TransportContext& context);

}  // namespace unisono
