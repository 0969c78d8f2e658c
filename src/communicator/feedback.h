// SPDX-License-Identifier: Apache-2.0
// Feedback: what a codec has lost of one tensor so far, added again at its next call (error
// feedback).
//
// After F. Seide, H. Fu, J. Droppo, G. Li, D. Yu, "1-bit stochastic gradient descent and its
// application to data-parallel distributed training of speech DNNs", Interspeech 2014.
//
// Each rank keeps two residuals of `count` float32: the *worker's*, of what it put into sums, and
// the *owner's*, of results that it alone finished (of the elements it owns; the rest is never
// touched and takes no memory). Whatever is not in the results is in some residual, so over many
// calls nothing is lost. When another plan runs the tensor, or another communicator, ownership may
// move: then the owner's residual becomes part of the worker's, and goes into the next sum. No rank
// needs another for that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/types.h"
#include "execute/encoded_space.h"

namespace unisono {

class Communicator;

// Made by the caller, one a tensor and rank; outlives the calls it is given to. One thread at a
// time. A call that fails leaves it undefined: import, or reset.
class Feedback {
 public:
  // Residuals of zero. Errors: kInvalidArgument for no elements; kOutOfResources.
  static Result<std::unique_ptr<Feedback>> create(std::string name, size_t count);
  Feedback(const Feedback&) = delete;
  Feedback& operator=(const Feedback&) = delete;

  struct State {
    double norm;     // of both residuals together (L2)
    uint64_t steps;  // calls that have ended
    uint64_t resets;
  };
  const std::string& name() const { return name_; }
  size_t count() const { return count_; }
  State query() const;

  Status check_idle() const;  // kInvalidArgument while a call uses it
  // All that follow: kInvalidArgument while a call uses it; after an error nothing has changed.

  // Forgets what was lost.
  Status reset();
  // The first call binds it to its communicator; from now on it is this one's. Keeps all that was
  // lost.
  Status rebind(const Communicator& communicator);
  // Everything but the communicator, as bytes with a version and a checksum. An import after which
  // all ranks make the same calls gives the same bits as without it.
  Result<std::string> export_state() const;
  size_t export_bytes() const;  // of an export
  // kInvalidArgument for bytes that are damaged, of another version, name or count.
  Status import_state(std::string_view bytes);

  // For the communicator. Who owns what: equal for calls in which the same elements are mine.
  struct Ownership {
    uint32_t signature = 0;
    int32_t rank = -1, size = 0;
    uint32_t divisor = 1;  // of the results that the owner's residual is of
    bool operator==(const Ownership&) const = default;
  };
  // kInvalidArgument, kUnsupported: the call cannot have this feedback; nothing has changed.
  Status check(const Communicator& communicator, size_t count, ReduceOp op) const;
  // Precondition: check() was ok. Until end() the residuals are the call's.
  Residuals begin(const Communicator& communicator, const Ownership& ownership);
  void end(bool completed);

 private:
  struct Free {
    void operator()(float* memory) const;
  };
  using Memory = std::unique_ptr<float[], Free>;

  Feedback(std::string name, size_t count, Memory worker, Memory owner)
      : name_(std::move(name)),
        count_(count),
        worker_(std::move(worker)),
        owner_(std::move(owner)) {}
  void give_owners_to_worker();

  const std::string name_;
  const size_t count_;
  const Memory worker_, owner_;
  uint64_t steps_ = 0, resets_ = 0;
  Ownership ownership_;  // of what is in owner_
  bool bound_ = false, in_use_ = false;
  std::weak_ptr<const void> communicator_;
};

}  // namespace unisono
