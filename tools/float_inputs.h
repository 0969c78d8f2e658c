// SPDX-License-Identifier: Apache-2.0
// FloatInputs: float32 vectors of all ranks, made or from a file, for calls whose result depends on
// the values: through a codec, or of a user's own data.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"

namespace unisono {

// Immutable. A row that is shorter than a call's vector repeats.
class FloatInputs {
 public:
  // Normally distributed, like gradients; the same on all ranks that make it.
  static FloatInputs made(int ranks);
  // A file of NumPy's format (.npy) of little-endian float32 in C order, with shape (ranks, n), or
  // (n,) for the same vector on every rank. kInvalidArgument with what is wrong with the file.
  static Result<FloatInputs> load(const std::string& path);

  // 1 where all ranks have the same vector.
  size_t rows() const { return values_.size() / columns_; }
  // Elements [first, first + count) of the rank's vector, which begins at `shift` of its row.
  void write(int rank, size_t shift, size_t first, size_t count, void* to) const;

 private:
  FloatInputs(std::vector<float> values, size_t columns)
      : values_(std::move(values)), columns_(columns) {}

  std::vector<float> values_;  // row by row
  size_t columns_;
};

}  // namespace unisono
