// SPDX-License-Identifier: Apache-2.0
#include "communicator/policy.h"

#include <fmt/format.h>

#include "algorithms/registry.h"
#include "codecs/codec.h"
#include "transports/registry.h"

namespace unisono {
namespace {

Status check_transport(const std::string& name) {
  if (name == "auto" || find_transport(name) != nullptr) return Status();
  std::string known;
  for (const TransportRow& row : transports()) known += fmt::format(", {}", row.name);
  return unsupported(fmt::format("unknown transport '{}': expected auto{}", name, known));
}

Result<std::optional<Choice>> parse_forced(const std::string& text) {
  if (text == "auto") return std::optional<Choice>();
  auto choice = parse_choice(text, algorithms());
  if (!choice.ok()) return choice.status();
  if (const auto codec = find_codec(choice->codec); !codec.ok()) return codec.status();
  return std::optional<Choice>(choice.take());
}

}  // namespace

Result<Policy> read_policy(const Settings& settings) {
  UNISONO_RETURN_IF_ERROR(check_transport(settings.text(Setting::kTransport)).in("UNISONO_TRANSPORT"));
  const std::string& text = settings.text(Setting::kRules);
  auto rules = Rules::parse(text.empty() ? Rules::default_text() : std::string_view(text), algorithms());
  if (!rules.ok()) return rules.status().in("UNISONO_RULES");
  auto forced = parse_forced(settings.text(Setting::kAlgorithm));
  if (!forced.ok()) return forced.status().in("UNISONO_ALGORITHM");
  return Policy{rules.take(), forced.take()};
}

}  // namespace unisono
