// SPDX-License-Identifier: Apache-2.0
// Conversions between vectors of float32 and of the 16-bit floats.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert.cc"
#include "kernels/convert.h"

#include "hwy/foreach_target.h"
#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace unisono::HWY_NAMESPACE {

template <class To, class From>
void convert(void* out, const void* in, size_t count) {
  uint8_t* to = static_cast<uint8_t*>(out);
  const uint8_t* from = static_cast<const uint8_t*>(in);
  const size_t lanes = hn::Lanes(typename From::D());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    To::store(From::load(from + i * From::kBytes), to + i * To::kBytes);
  if (i < count) {
    const auto rest = load_some<From>(from + i * From::kBytes, count - i);
    store_some<To>(rest, to + i * To::kBytes, count - i);
  }
}

ConvertKernel choose_convert(DataType half, bool widen) {
  using Float32 = Plain<float>;
  if (half == DataType::kFloat16)
    return widen ? &convert<Float32, Float16> : &convert<Float16, Float32>;
  return widen ? &convert<Float32, Bfloat16> : &convert<Bfloat16, Float32>;
}

}  // namespace unisono::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace unisono {

HWY_EXPORT(choose_convert);

ConvertKernel to_float32_kernel(DataType half) {
  return HWY_DYNAMIC_DISPATCH(choose_convert)(half, true);
}

ConvertKernel from_float32_kernel(DataType half) {
  return HWY_DYNAMIC_DISPATCH(choose_convert)(half, false);
}

}  // namespace unisono
#endif
