// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/configuration.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "transports/ucx/engine.h"
#include "transports/ucx/interfaces.h"

namespace unisono {
namespace {

// An option that UCX knows as UCX_<prefix><name> in the environment, and as <name> otherwise.
struct Entry {
  std::string prefix, name, value;
};
using Entries = std::vector<Entry>;

// UCX's model of TCP takes an unknown link for 100 Mbit/s with 50 us of overhead, so its own
// thresholds are far off. One eager message is one segment: a segment must hold the longest.
void add_tuning(DeviceKind kind, Entries& entries) {
  if (kind == DeviceKind::kRdma) return;  // UCX knows those links
  const bool local = kind == DeviceKind::kVirtual;
  entries.push_back({"", "RNDV_THRESH", local ? "32K" : "128K"});
  entries.push_back({"TCP_", "TX_SEG_SIZE", local ? "64K" : "160K"});
  entries.push_back({"TCP_", "RX_SEG_SIZE", local ? "64K" : "160K"});
}

}  // namespace

Result<UcxConfiguration> read_configuration(const Settings& settings) {
  const Result<InterfaceChoice> chosen = choose_interfaces(settings.text(Setting::kInterface));
  if (!chosen.ok()) return chosen.status();

  // Shared memory and CUDA IPC belong to other transports.
  Entries entries = {{"", "TLS", "^sm,cuda,rocm"}, {"TCP_", "MAX_NUM_EPS", "inf"}};
  add_tuning(chosen->kind, entries);
  if (!chosen->devices.empty()) entries.push_back({"", "NET_DEVICES", chosen->devices});
  if (chosen->family() == AF_INET6) entries.push_back({"TCP_", "AF_PRIO", "inet6,inet"});
  if (const PortRange ports = settings.ports(Setting::kPortRange); !ports.is_any())
    entries.push_back({"TCP_", "PORT_RANGE", fmt::format("{}-{}", ports.first, ports.last)});

  ucp_config_t* raw = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &raw);
  if (status != UCS_OK) return ucx_error("ucx cannot read its UCX_* variables", status);
  UcxConfiguration config(raw);
  for (const auto& [prefix, name, value] : entries) {
    if (::getenv(fmt::format("UCX_{}{}", prefix, name).c_str()) != nullptr) continue;
    status = ucp_config_modify(config.get(), name.c_str(), value.c_str());
    if (status != UCS_OK) return ucx_error(fmt::format("ucx refuses {}={}", name, value), status);
  }
  return config;
}

}  // namespace unisono
