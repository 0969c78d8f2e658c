// SPDX-License-Identifier: Apache-2.0
#include "kernels/move.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/move.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `to` is aligned to a line, and `bytes` are whole lines.
void stream_lines(uint8_t* HWY_RESTRICT to, const uint8_t* HWY_RESTRICT from, size_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < bytes; i += lanes) hn::Stream(hn::LoadU(d, from + i), d, to + i);
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace unisono {

constexpr size_t kLine = 64;

HWY_EXPORT(stream_lines);

void stream(void* to, const void* from, size_t bytes) {
  auto* const out = static_cast<uint8_t*>(to);
  const auto* const in = static_cast<const uint8_t*>(from);
  const size_t head = std::min<size_t>(-reinterpret_cast<uintptr_t>(to) % kLine, bytes);
  const size_t body = (bytes - head) / kLine * kLine, tail = head + body;
  std::memcpy(out, in, head);
  HWY_DYNAMIC_DISPATCH(stream_lines)(out + head, in + head, body);
  std::memcpy(out + tail, in + tail, bytes - tail);
}

void end_streams() {
  hwy::FlushStream();
}

size_t core_cache_bytes() {
  static const long told = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return told > 0 ? static_cast<size_t>(told) : size_t{1} << 20;
}

}  // namespace unisono
#endif
