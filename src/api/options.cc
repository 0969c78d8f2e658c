// SPDX-License-Identifier: Apache-2.0
#include "api/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include "communicator/policy.h"

namespace unisono::api {
namespace {

constexpr size_t kLargestStruct = 4096;  // what is said to be larger is no struct of ours

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
}

Status set_pair(Settings& settings, std::string_view pair) {
  const size_t equals = pair.find('=');
  if (equals == std::string_view::npos)
    return invalid_argument(fmt::format("setting '{}': expected UNISONO_NAME=value", pair));
  return settings.set(pair.substr(0, equals), pair.substr(equals + 1), "options");
}

}  // namespace

Status check_struct(std::string_view name, const std::byte* bytes, size_t first, size_t known) {
  size_t given;
  std::memcpy(&given, bytes, sizeof(given));
  if (given == 0 && is_zero({bytes, first})) return Status();
  if (given < first || given > kLargestStruct)
    return invalid_argument(fmt::format("{}: its size field is {}: expected sizeof({}) = {}", name,
                                        given, name, known));
  if (given > known && !is_zero({bytes + known, given - known}))
    return unsupported(
        fmt::format("{}: sets fields that this library does not know (its version is {})", name,
                    UNISONO_VERSION));
  return Status();
}

Result<Creation> read_options(const unisono_options_t* given) {
  const auto options = read_struct("unisono_options_t", given, sizeof(unisono_options_t));
  if (!options.ok()) return options.status();
  auto settings = Settings::from_environment(environ);
  if (!settings.ok()) return settings.status();
  Creation creation{settings.take(), {}};
  for (const char* const* pair = options->settings; pair != nullptr && *pair != nullptr; ++pair)
    UNISONO_RETURN_IF_ERROR(set_pair(creation.settings, *pair));
  if (const auto policy = read_policy(creation.settings); !policy.ok()) return policy.status();
  if (options->servers == nullptr && options->server_count != 0)
    return invalid_argument(
        fmt::format("servers is NULL, with a server_count of {}", options->server_count));
  creation.communicator.servers.assign(options->servers, options->servers + options->server_count);
  return creation;
}

}  // namespace unisono::api
