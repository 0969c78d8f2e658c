// SPDX-License-Identifier: Apache-2.0
// Copies past the cache.
#pragma once

#include <cstddef>

namespace unisono {

// Like memcpy (any alignment, no overlap) into memory that nobody reads soon: its lines are not fetched before
// they are overwritten, and drive nothing out of the cache. Other threads see the bytes in order only behind
// end_streams().
void stream(void* to, const void* from, size_t bytes);
void end_streams();

// Whether an output of that size is better streamed: with its input, it would fill this core's own cache.
bool should_stream(size_t bytes);

}  // namespace unisono
