// SPDX-License-Identifier: Apache-2.0
// Names and wording of Status.
#include "base/status.h"

#include <cerrno>
#include <cstring>

namespace unisono {

std::string_view name_of(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "ok";
    case StatusCode::kInProgress: return "in progress";
    case StatusCode::kInvalidArgument: return "invalid argument";
    case StatusCode::kUnsupported: return "unsupported";
    case StatusCode::kOutOfResources: return "out of resources";
    case StatusCode::kMismatch: return "mismatched call";
    case StatusCode::kTimeout: return "timeout";
    case StatusCode::kPeerFailed: return "peer failed";
    case StatusCode::kAborted: return "aborted";
    case StatusCode::kSystem: return "system error";
    case StatusCode::kInternal: return "internal error";
  }
  return "unknown status";
}

Status Status::in(std::string_view context) const {
  if (ok()) return Status();
  return Status(code(), std::string(context) + ": " + std::string(message()));
}

Status system_error(std::string_view what) {
  return Status(StatusCode::kSystem, std::string(what) + ": " + std::strerror(errno));
}

}  // namespace unisono
