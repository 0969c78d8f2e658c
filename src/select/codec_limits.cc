// SPDX-License-Identifier: Apache-2.0
#include "select/codec_limits.h"

#include <fmt/format.h>

#include "codecs/codec.h"
#include "schedule/quantise.h"

namespace unisono {

Choice on_hosts(Choice choice, const Shape& shape) {
  if (choice.links == CodecLinks::kAll || shape.hosts() > 1) return choice;
  choice.codec = "none";
  choice.links = CodecLinks::kAll;
  return choice;
}

Result<Quantisation> quantisation_of(const Algorithm& algorithm, const Shape& shape,
                                     const Codec* codec, CodecLinks links) {
  if (codec == nullptr) return Quantisation();
  const auto schedules =
      quantise(build_all(algorithm, shape), shape.contributors(), on_links(links, shape));
  const Verification proof =
      verify(schedules, {.servers = shape.servers, .relative_error = codec->relative_error});
  if (proof.fault == Fault::kOrder && links != CodecLinks::kAll)
    return unsupported(
        fmt::format("{} with a codec on some links only: ranks would get other bits: {}",
                    algorithm.name, proof.explanation));
  if (!proof.ok()) return Status(StatusCode::kInternal, proof.explanation).in(algorithm.name);
  return proof.quantisation;
}

Result<Quantisation> Quantisations::of(const Algorithm& algorithm, const Shape& shape,
                                       const Codec* codec, CodecLinks links) {
  for (const Entry& entry : entries_)
    if (entry.algorithm == &algorithm && entry.parameters == shape.parameters &&
        entry.codec == codec && entry.links == links)
      return entry.quantisation;
  entries_.push_back({&algorithm, shape.parameters, codec, links,
                      quantisation_of(algorithm, shape, codec, links)});
  return entries_.back().quantisation;
}

Status check_codec(const Algorithm& algorithm, const Shape& shape, const Codec* codec,
                   CodecLinks links, const CodecLimits& limits, Quantisations& known) {
  if (codec == nullptr || (links == CodecLinks::kBetweenHosts && shape.hosts() == 1))
    return Status();
  UNISONO_RETURN_IF_ERROR(supports(codec, limits.type, limits.op));
  if (!limits.codec && !(limits.max_error > 0))
    return unsupported(fmt::format("codec {} is lossy, and the call allows no error", codec->name));
  const auto quantisation = known.of(algorithm, shape, codec, links);
  if (!quantisation.ok()) return quantisation.status();
  const auto advised = static_cast<uint32_t>(codec->advised_quantisations);
  if (advised > 0 && quantisation->most > advised)
    return unsupported(
        fmt::format("{} encodes a contribution {} times, codec {} advises at most {}",
                    algorithm.name, quantisation->most, codec->name, advised));
  const double error = quantisation->error / shape.contributors();
  if (!limits.codec && error > limits.max_error)
    return unsupported(fmt::format("codec {} adds an error of up to {:.2g}, the call allows {:.2g}",
                                   codec->name, error, limits.max_error));
  return Status();
}

}  // namespace unisono
