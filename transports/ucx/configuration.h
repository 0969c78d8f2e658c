// SPDX-License-Identifier: Apache-2.0
// UCX's configuration for our use. A UCX_* variable that the user has set always wins.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>

#include "base/settings.h"
#include "base/status.h"

namespace unisono {

struct ReleaseConfiguration {
  void operator()(ucp_config_t* config) const { ucp_config_release(config); }
};
using UcxConfiguration = std::unique_ptr<ucp_config_t, ReleaseConfiguration>;

Result<UcxConfiguration> read_configuration(const Settings& settings);

}  // namespace unisono
