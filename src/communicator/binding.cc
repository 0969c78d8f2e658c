// SPDX-License-Identifier: Apache-2.0
#include "communicator/binding.h"

#include <fmt/format.h>

#include "topology/host.h"
#include "topology/machine.h"

namespace unisono {

Status bind_to_core(const Agreement& agreement, const Settings& settings, const Log& log) {
  if (settings.text(Setting::kBind) != "core") return Status();
  if (!agreement.same_cpus) {
    log.write(LogLevel::kInfo, "not bound: the ranks of this host may use different CPUs already");
    return Status();
  }
  const auto machine = this_machine();
  if (!machine.ok()) return machine.status().in("UNISONO_BIND=core");
  const std::vector<int> allowed = allowed_cpus();
  const auto shares = share_cores(*machine, allowed, agreement.local_ranks);
  if (shares.empty()) {
    log.write(LogLevel::kInfo,
              fmt::format("not bound: {} cores for {} ranks", cores_of(*machine, allowed).size(),
                          agreement.local_ranks));
    return Status();
  }
  const int core = shares[static_cast<size_t>(agreement.local_rank)].front();
  const auto cpus = cpus_of(*machine, std::span(&core, 1), allowed);
  UNISONO_RETURN_IF_ERROR(bind_thread(cpus).in("UNISONO_BIND=core"));
  log.write(LogLevel::kInfo, fmt::format("bound to core {}, CPUs {}", core, fmt::join(cpus, ",")));
  return Status();
}

}  // namespace unisono
