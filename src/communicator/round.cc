// SPDX-License-Identifier: Apache-2.0
#include "communicator/round.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/pack.h"
#include "base/text.h"

namespace unisono {
namespace {

std::string to_bytes(const RankReport& report) {
  const std::string fields[] = {report.deed, std::to_string(static_cast<int>(report.status.code())),
                                std::string(report.status.message()), report.detail};
  return pack(fields);
}

RankReport from_bytes(std::string_view bytes) {
  auto fields = unpack(bytes, 4);
  const auto code = fields ? parse_integer((*fields)[1]) : std::nullopt;
  // Whoever gathers something else says so in other words.
  if (!code) return {"does something else", {}};
  return {std::move((*fields)[0]), Status(static_cast<StatusCode>(*code), std::move((*fields)[2])),
          std::move((*fields)[3])};
}

}  // namespace

Result<std::vector<RankReport>> report_to_all(const Gather& gather, const RankReport& mine) {
  const auto gathered = gather(to_bytes(mine));
  if (!gathered.ok()) return gathered.status();
  std::vector<RankReport> all;
  std::ranges::transform(*gathered, std::back_inserter(all), from_bytes);
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank].deed != all[0].deed)
      return Status(StatusCode::kMismatch,
                    fmt::format("rank 0 {}, rank {} {}", all[0].deed, rank, all[rank].deed));
  return all;
}

int first_failed(std::span<const RankReport> reports) {
  const auto failed = std::ranges::find_if(reports, [](const RankReport& report) { return !report.status.ok(); });
  return failed == reports.end() ? -1 : static_cast<int>(failed - reports.begin());
}

}  // namespace unisono
