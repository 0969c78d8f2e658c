// SPDX-License-Identifier: Apache-2.0
#include "transports/registry.h"

#include <vector>

#include "transports/host_memory/transport.h"
#include "transports/ucx/loader.h"

namespace unisono {

std::span<const TransportRow> transports() {
  static const std::vector<TransportRow> kTable = {
      {"host_memory", "ranks of one host, as processes or threads, through shared memory",
       create_host_memory, true},
      {"ucx", "the network through UCX: TCP, and RDMA where there is some", create_ucx_transport},
  };
  return kTable;
}

const TransportRow* find_transport(std::string_view name) {
  for (const TransportRow& row : transports())
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace unisono
