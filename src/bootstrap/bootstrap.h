// SPDX-License-Identifier: Apache-2.0
// The contract of a bootstrap: how ranks find each other before there is a transport.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/settings.h"
#include "base/status.h"
#include "bootstrap/control.h"

namespace unisono {

inline constexpr size_t kMaxGatherBytes = size_t{16} << 20;  // of one rank in one all_gather

// One thread at a time. Lives as long as its communicator. Once an all_gather has failed, every
// later one returns the same error: ranks that met no longer agree on what comes next.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // 16 bytes, the same on all ranks of the job, unknown to strangers.
  virtual std::string job_token() const = 0;
  // Collective: every rank's bytes (any length, at most 16 MiB), in rank order.
  // Errors: kTimeout naming the missing ranks; kPeerFailed naming who left.
  virtual Result<std::vector<std::string>> all_gather(std::string_view mine, Deadline deadline) = 0;
  // Collective, once, the last: the connections become those of a control channel. Errors: as
  // all_gather(); kOutOfResources without a thread to serve it.
  virtual Result<std::unique_ptr<Control>> turn_over(const ControlOptions& options,
                                                     const Settings& settings,
                                                     Deadline deadline) = 0;
};

// Ranks as threads of one process: `size` bootstraps that meet in memory. Thread-safe among
// themselves.
std::vector<std::unique_ptr<Bootstrap>> make_thread_bootstraps(int size);

// Ranks as processes, found through settings (UNISONO_*) and the environment of the launcher; the
// rules are in bootstrap/environment.h. Errors: kInvalidArgument naming the variable; kTimeout
// naming the missing ranks.
Result<std::unique_ptr<Bootstrap>> make_process_bootstrap(const Settings& settings,
                                                          Deadline deadline);

// Everything that a rank needs to find rank 0, for callers who have their own way to hand it to all
// ranks. Plain bytes; holds the job token, so only ranks should see it.
struct UniqueId {
  std::array<uint8_t, 128> bytes{};
};

// Opens a listener on kInterface and kPortRange that stays open until rank 0 uses the id (or the
// process ends). Call it in the process where rank 0 will be. Thread-safe.
Result<UniqueId> make_unique_id(const Settings& settings);

// Collective over the `size` ranks that hold the id; threads and processes in any mix. Uses the id
// up. Errors: kInvalidArgument for bytes that are no id, and on rank 0 in a process that did not
// make it; kTimeout naming the missing ranks.
Result<std::unique_ptr<Bootstrap>> make_unique_id_bootstrap(const UniqueId& id, int size, int rank,
                                                            const Settings& settings,
                                                            Deadline deadline);

// The caller's own all-gather: `bytes` of `mine` from every rank into `all` (size × bytes, in rank
// order), as MPI_Allgather. The same `bytes` on all ranks. Its errors are passed on; it keeps its
// own deadline.
using AllGatherFunction = std::function<Status(const void* mine, void* all, size_t bytes)>;

// Collective: calls the function once, to agree on a token made by rank 0.
Result<std::unique_ptr<Bootstrap>> make_callback_bootstrap(int rank, int size,
                                                           AllGatherFunction all_gather);

}  // namespace unisono
