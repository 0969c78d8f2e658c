// SPDX-License-Identifier: Apache-2.0
// Versions: what becomes of each value of a rank, which decides where a codec enters (quantise.h).
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/quantise.h"
#include "schedule/schedule.h"

namespace unisono {

// My value of a chunk, from the step that makes it to the next one that does.
struct Version {
  bool finished = false;      // holds every contributor
  bool received = false;      // as it is, from another rank
  bool shared = false;        // other ranks may compute the same, since I sent them my part of it
  bool sent = false;          // to anyone
  bool is_encoded = false;    // leaves me, or came to me, in the wire format
  bool is_used = false;       // as numbers
  bool takes_worker = false;  // the fold that makes it takes the worker's residual along
  Residual residual = Residual::kNone;  // of its encoding
};

// What a rank goes by. References outlive it.
struct QuantiseTask {
  const Schedule& plain;
  bool sole;                              // one rank alone contributes, so that its input is the result
  const std::vector<bool>& results_sent;  // per chunk: whether any rank sends its result
  const OnLink& on_link;

  bool is_encoded(int from, int to, bool result) const { return result || !on_link || on_link(from, to); }
};

inline uint32_t end_of(ChunkRange chunks) {
  return chunks.first + chunks.count;
}

// Each chunk's present version, while one goes through the steps.
class Versions {
 public:
  // Looks at all steps; then the present is before the first.
  explicit Versions(const QuantiseTask& task);

  const Version& at(uint32_t chunk) const { return all_[chunk][present_[chunk]]; }
  void advance(uint32_t chunk) { ++present_[chunk]; }
  // Whether these are results.
  bool finished(ChunkRange chunks) const;

 private:
  Version& present(uint32_t chunk) { return all_[chunk][present_[chunk]]; }
  void make(uint32_t chunk, const Version& next);
  void send(const QuantiseTask& task, const Step& step);
  void fold(const QuantiseTask& task, const Step& step);
  static void assign_residuals(std::vector<Version>& versions);

  std::vector<std::vector<Version>> all_;  // per chunk
  std::vector<size_t> present_;            // per chunk
};

}  // namespace unisono
