// SPDX-License-Identifier: Apache-2.0
// What the library and the UCX module know of each other. No UCX header here.
#pragma once

#include <memory>

#include "transport/transport.h"

namespace unisono {

inline constexpr const char* kUcxModuleFile = "libunisono_ucx.so";
inline constexpr const char* kUcxModuleSymbol = "unisono_ucx_module";

// The one symbol that the module exports. Both sides are built together: `version` must be equal.
struct UcxModule {
  const char* version;
  Result<std::unique_ptr<Transport>> (*create)(const TransportContext& context);
};

}  // namespace unisono
