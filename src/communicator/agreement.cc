// SPDX-License-Identifier: Apache-2.0
#include "communicator/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/pack.h"
#include "base/text.h"
#include "topology/host.h"

namespace unisono {
namespace {

constexpr Setting kAgreed[] = {Setting::kAlgorithm, Setting::kRules,      Setting::kTransport,
                               Setting::kForm,      Setting::kSliceBytes, Setting::kDepth,
                               Setting::kFuseBytes};

// "what=value" lines that must be equal on all ranks.
std::vector<std::string> agreed_lines(const Settings& settings,
                                      const CommunicatorOptions& options) {
  std::vector<std::string> lines = {"version=" UNISONO_VERSION};
  for (const Setting setting : kAgreed)
    lines.push_back(fmt::format("{}={}", Settings::table()[static_cast<size_t>(setting)].name,
                                settings.text(setting)));
  lines.push_back(fmt::format("servers={}", fmt::join(options.servers, ",")));
  return lines;
}

std::vector<int> parse_cpus(std::string_view text) {
  std::vector<int> cpus;
  for (const std::string_view word : split(text, ','))
    if (const auto cpu = parse_integer(word)) cpus.push_back(static_cast<int>(*cpu));
  return cpus;
}

}  // namespace

Result<Agreement> agree(Bootstrap& bootstrap, const Settings& settings,
                        const CommunicatorOptions& options, Deadline deadline) {
  std::vector<std::string> mine = agreed_lines(settings, options);
  const size_t agreed = mine.size();
  mine.push_back(host_identity());
  mine.push_back(fmt::format("{}", fmt::join(allowed_cpus(), ",")));
  auto gathered = bootstrap.all_gather(pack(mine), deadline);
  if (!gathered.ok()) return gathered.status();

  Agreement agreement;
  std::map<std::string, int> hosts;
  std::vector<std::vector<int>> masks;
  for (size_t rank = 0; rank < gathered->size(); ++rank) {
    const auto theirs = unpack((*gathered)[rank], mine.size());
    if (!theirs)
      return Status(StatusCode::kMismatch,
                    fmt::format("rank {} runs another version of unisono", rank));
    for (size_t i = 0; i < agreed; ++i) {
      if ((*theirs)[i] != mine[i])
        return Status(StatusCode::kMismatch, fmt::format("rank {} has {}, rank {} has {}", rank,
                                                         (*theirs)[i], bootstrap.rank(), mine[i]));
    }
    const std::string& host = (*theirs)[agreed];
    agreement.hosts.push_back(
        hosts.try_emplace(host, static_cast<int>(hosts.size())).first->second);
    if (static_cast<int>(rank) == bootstrap.rank()) agreement.local_rank = static_cast<int>(masks.size());
    if (host == mine[agreed]) masks.push_back(parse_cpus((*theirs)[agreed + 1]));
  }
  agreement.local_ranks = static_cast<int>(masks.size());
  agreement.usable_cpus = usable_cpus(masks, cpu_quota());
  agreement.same_cpus = std::ranges::count(masks, masks.front()) == std::ssize(masks);
  return agreement;
}

}  // namespace unisono
