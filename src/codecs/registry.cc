// SPDX-License-Identifier: Apache-2.0
// The table of codecs, and what is looked up in it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "codecs/codec.h"

namespace unisono {

extern const Codec kFp16Codec;
extern const Codec kBf16Codec;
extern const Codec kInt8Codec;
extern const Codec kOnebitCodec;

std::span<const Codec* const> codec_table() {
  static constexpr const Codec* kTable[] = {&kFp16Codec, &kBf16Codec, &kInt8Codec, &kOnebitCodec};
  return kTable;
}

Result<const Codec*> find_codec(std::string_view name) {
  if (name == "none") return static_cast<const Codec*>(nullptr);
  std::vector<std::string_view> known = {"none"};
  for (const Codec* codec : codec_table()) {
    if (codec->name == name) return codec;
    known.push_back(codec->name);
  }
  const std::string_view nearest = nearest_name(name, known);
  if (!nearest.empty())
    return invalid_argument(fmt::format("unknown codec {}: did you mean {}?", name, nearest));
  return invalid_argument(
      fmt::format("unknown codec {}: expected one of {}", name, fmt::join(known, ", ")));
}

Status supports(const Codec* codec, DataType type, ReduceOp op) {
  if (codec == nullptr) return {};
  if (type != DataType::kFloat32)
    return unsupported(fmt::format("codec {} serves f32, not {}", codec->name, name_of(type)));
  if (std::ranges::find(codec->ops, op) != codec->ops.end()) return {};
  std::vector<std::string_view> served;
  for (ReduceOp each : codec->ops) served.push_back(name_of(each));
  return unsupported(
      fmt::format("codec {} serves {}, not {}", codec->name, fmt::join(served, ", "), name_of(op)));
}

}  // namespace unisono
