// SPDX-License-Identifier: Apache-2.0
// The setting UNISONO_BIND: a core for each rank's thread.
#pragma once

#include "base/log.h"
#include "base/settings.h"
#include "base/status.h"
#include "communicator/agreement.h"

namespace unisono {

// Binds the calling thread to one core, as share_cores picks it for this rank among those of its
// host, if the setting asks for it, the ranks may all use the same CPUs, and each can have a core.
// Else does nothing, and logs why. The thread stays bound.
Status bind_to_core(const Agreement& agreement, const Settings& settings, const Log& log);

}  // namespace unisono
