// SPDX-License-Identifier: Apache-2.0
// Group: all-reduces that are noted one by one and run as one, small ones packed together.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/status.h"
#include "communicator/communicator.h"

namespace unisono::api {

// Memory that is used again by the next group.
struct Pack {
  std::unique_ptr<std::byte[]> memory;
  size_t bytes = 0;
};

// One thread at a time.
class Group {
 public:
  // Calls of at most `fuse_bytes` are packed.
  Group(Communicator& communicator, size_t fuse_bytes)
      : communicator_(communicator), fuse_bytes_(fuse_bytes) {}

  bool is_open() const { return open_; }
  Status begin();
  // Precondition: open. A failed note makes end() fail with it. Gives the note's own status back.
  Status note(Result<AllReduceCall> call);
  // Closes the group and runs it. All calls that were started have ended when it returns or throws.
  Status end();
  Status discard();

 private:
  Communicator& communicator_;
  const size_t fuse_bytes_;
  bool open_ = false;
  std::vector<AllReduceCall> calls_;
  Status failure_;  // of the first failed note
  std::vector<Pack> packs_;
};

}  // namespace unisono::api
