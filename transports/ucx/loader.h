// SPDX-License-Identifier: Apache-2.0
// The row `ucx` of the transport table: finds and loads the module that holds the transport.
#pragma once

#include <memory>

#include "transport/transport.h"

namespace unisono {

// Loads the module at the first call; it stays loaded until the process ends. Thread-safe.
// Errors: kUnsupported when the module is not installed or does not load, with where it was looked
// for; else those of the transport itself.
//
// UCX reads its settings while it is loaded: unless the user has set them, its signal handlers, VFS
// thread and memory hooks are switched off by environment variables that exist during the load
// only. They are made visible by swapping `environ` for an extended copy, not with setenv(), so
// that a getenv() in another thread always sees a whole environment, and the old one comes back
// untouched. A setenv() of another thread at that very moment is kept if it comes after the swap,
// together with our variables.
Result<std::unique_ptr<Transport>> create_ucx_transport(const TransportContext& context);

}  // namespace unisono
