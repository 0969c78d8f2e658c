// SPDX-License-Identifier: Apache-2.0
// Address: what a rank tells its peers, so that they know whether and how they reach it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace unisono::host_memory {

// Plain bytes; ranks of one host share one build's layout, which `version` checks: raise it with every change of the
// layouts here, of layout.h and of DirectBlock.
struct Address {
  static constexpr uint32_t kMagic = 0x6d485355, kVersion = 2;  // "USHm"

  uint32_t magic = kMagic, version = kVersion;
  // Host: the kernel's boot, and the namespaces in which sockets and users mean the same.
  std::array<char, 36> boot_id{};
  uint32_t user = 0;  // effective
  uint64_t network_namespace = 0, user_namespace = 0;
  // Process.
  uint64_t pid_namespace = 0;
  int64_t pid = 0;
  // Transport.
  uint64_t id = 0;                // random
  std::array<char, 32> socket{};  // abstract name; random too

  static Result<Address> mine();
  static Result<Address> parse(std::string_view bytes);
  std::string bytes() const;

  // Ok, or why the two cannot share memory.
  Status reaches(const Address& peer) const;
  bool same_process(const Address& peer) const {
    return pid_namespace == peer.pid_namespace && pid == peer.pid;
  }
};

}  // namespace unisono::host_memory
