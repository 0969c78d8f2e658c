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

// Bytes of a core's own cache: the second level's, or a guess where that is unknown.
size_t core_cache_bytes();

}  // namespace unisono
