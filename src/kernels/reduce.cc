// SPDX-License-Identifier: Apache-2.0
// Which group of types compiles the kernel of a type.
#include "kernels/reduce.h"

#include "kernels/reduce_groups.h"

namespace unisono {

ReduceKernels reduce_kernels(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
      return reduce_bytes(type, op);
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kInt64:
    case DataType::kUint64:
      return reduce_words(type, op);
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return reduce_halves(type, op);
    case DataType::kFloat32:
    case DataType::kFloat64:
      break;
  }
  return reduce_floats(type, op);
}

}  // namespace unisono
