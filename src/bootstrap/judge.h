// SPDX-License-Identifier: Apache-2.0
// Judge: what rank 0 decides from what it hears. No communication of its own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bootstrap/control.h"

namespace unisono {

// One thread at a time.
class Judge {
 public:
  Judge(int size, const ControlOptions& options)
      : options_(options),
        statements_(static_cast<size_t>(size)),
        left_(static_cast<size_t>(size)) {}

  // What a rank said, or that its connection ended. Nothing counts after the verdict.
  void hear(int rank, Word word, const Status& cause, std::string statement);
  void hear_end(int rank, std::string_view reason);
  // Of the channel's own: the first one stays.
  void decide(Status verdict);

  const Status& verdict() const { return verdict_; }  // ok: none yet
  size_t size() const { return left_.size(); }
  bool has_left(int rank) const { return left_[static_cast<size_t>(rank)]; }

 private:
  const ControlOptions options_;
  std::vector<std::string> statements_;  // by rank
  std::vector<bool> left_;
  Status verdict_;
};

}  // namespace unisono
