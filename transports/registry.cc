// SPDX-License-Identifier: Apache-2.0
#include "transports/registry.h"

#include <vector>

namespace unisono {

std::span<const TransportRow> transports() {
  static const std::vector<TransportRow> kTable = {};
  return kTable;
}

const TransportRow* find_transport(std::string_view name) {
  for (const TransportRow& row : transports())
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace unisono
