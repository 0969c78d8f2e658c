// SPDX-License-Identifier: Apache-2.0
#include "communicator/all_reduce.h"

#include <fmt/format.h>

namespace unisono {

Status check_buffers(const AllReduceCall& call) {
  if (call.count == 0) return Status();
  if (call.input == nullptr || call.output == nullptr)
    return invalid_argument(fmt::format("{} is null, with a count of {}",
                                        call.input == nullptr ? "input" : "output", call.count));
  const size_t size = size_of(call.type);
  if (call.count > SIZE_MAX / size)
    return invalid_argument(
        fmt::format("count {} of {} is more than memory can hold", call.count, name_of(call.type)));
  const auto input = reinterpret_cast<uintptr_t>(call.input);
  const auto output = reinterpret_cast<uintptr_t>(call.output);
  const size_t distance = input < output ? output - input : input - output;
  if (distance != 0 && distance < call.count * size)
    return invalid_argument(
        fmt::format("input and output overlap by {} bytes: expected the same buffer or two apart",
                    call.count * size - distance));
  return Status();
}

}  // namespace unisono
