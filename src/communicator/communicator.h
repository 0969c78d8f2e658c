// SPDX-License-Identifier: Apache-2.0
// Communicator: the composition root. Connects the ranks, agrees on the selection table, runs calls.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "base/status.h"
#include "bootstrap/bootstrap.h"
#include "communicator/all_reduce.h"

namespace unisono {

struct CommunicatorOptions {
  std::vector<int> servers;  // ranks that contribute nothing, ascending; the same on all ranks
};

class Request;  // a started call; opaque

// Used by one thread at a time, or by any with progress=thread. Several may live side by side.
class Communicator {
 public:
  // Collective over the bootstrap's ranks. Takes the bootstrap over.
  static Result<std::unique_ptr<Communicator>> create(std::unique_ptr<Bootstrap> bootstrap,
                                                      const Settings& settings,
                                                      const CommunicatorOptions& options = {});
  virtual ~Communicator() = default;  // local and bounded; started calls end as aborted

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Blocks until this rank's output is complete. kInvalidArgument and kUnsupported change nothing;
  // any later error makes every further call return it.
  virtual Status all_reduce(const AllReduceCall& call) = 0;

  // Starts a call; buffers stay the call's until it has ended. All ranks start their calls in the same
  // order; they may wait for them in any order. The request ends with wait(), or with a test() that does
  // not say kInProgress.
  virtual Result<Request*> start(const AllReduceCall& call) = 0;
  virtual Status test(Request* request) = 0;
  virtual Status wait(Request* request) = 0;

  // What would run this call; no communication.
  virtual Result<CallPlan> plan(const AllReduceCall& call) const = 0;

  // Any number of bytes from every rank, in rank order, over the control channel; also a barrier. Not fast.
  // Its failure is every later call's too.
  virtual Result<std::vector<std::string>> all_gather(std::string_view mine) = 0;

  // Collective. Zeroed memory of at least 1 byte for buffers, the same size on all ranks, mapped by all where they
  // are of one host; begins with a page. After all calls have ended. kOutOfResources and kMismatch are the same on
  // all ranks and change nothing.
  virtual Result<void*> allocate(size_t bytes) = 0;
  // Collective, after all calls have ended. kInvalidArgument, for what is no allocation or while calls run, changes
  // nothing; else the memory is gone. Local where the communicator has failed. What is left at the end is freed.
  virtual Status free(void* memory) = 0;

  // Every pending and later call ends with kAborted, and the other ranks' with kPeerFailed. Local; the only function
  // that any thread may call at any time.
  virtual void abort() = 0;

  // Stands for this communicator, as long as it lives.
  const std::shared_ptr<const void>& identity() const { return identity_; }

 private:
  const std::shared_ptr<const void> identity_ = std::make_shared<const char>();
};

}  // namespace unisono
