// SPDX-License-Identifier: Apache-2.0
// A gate in front of UCX's listener, which aborts the process when what it reads is not of UCX.
//
// The gate is a socket filter (classic BPF, no privilege needed) in the kernel: on connections that
// the listener accepts, a segment gets through only if it is empty or holds the job's secret near
// its beginning, as the first message of every client of ours does (its worker's client id). When
// UCX has handed that message up and the secret was right, the gate of that connection is opened.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "transports/ucx/interfaces.h"

namespace unisono {

// Puts the gate on this process's TCP listener of that port; does nothing where there is none
// (RDMA).
Status close_gate(uint16_t port, uint64_t secret);
// Takes it off the connection that `client` has made to that port.
void open_gate(uint16_t port, const SocketAddress& client);

}  // namespace unisono
