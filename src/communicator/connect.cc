// SPDX-License-Identifier: Apache-2.0
#include "communicator/connect.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "communicator/round.h"
#include "direct/block.h"
#include "transports/registry.h"

namespace unisono {
namespace {

// Preferably a rank whose failure is its own, not that of another rank; -1: none has failed.
int culprit_of(std::span<const RankReport> reports) {
  const auto own = std::ranges::find_if(reports, [](const RankReport& report) {
    return !report.status.ok() && report.status.code() != StatusCode::kPeerFailed;
  });
  return own == reports.end() ? first_failed(reports) : static_cast<int>(own - reports.begin());
}

class Connector {
 public:
  Connector(Bootstrap& bootstrap, const Settings& settings, const Log& log, Deadline deadline)
      : bootstrap_(bootstrap), settings_(settings), log_(log), deadline_(deadline) {
    connections_.channels.resize(static_cast<size_t>(bootstrap.size()));
    for (int peer = 0; peer < bootstrap.size(); ++peer)
      if (peer != bootstrap.rank()) unreached_.push_back(peer);
    all_reached_ = unreached_.empty();
  }

  Result<Connections> connect();

 private:
  Result<std::vector<RankReport>> exchange(std::string deed, const Status& status, std::string detail);
  Status try_transport(const TransportRow& row);
  void note(LogLevel level, std::string_view transport, std::string_view reason);

  Bootstrap& bootstrap_;
  const Settings& settings_;
  const Log& log_;
  const Deadline deadline_;
  Connections connections_;
  std::vector<int> unreached_;  // my peers without a channel
  bool all_reached_ = false;    // on every rank
  std::string reasons_;
};

Result<std::vector<RankReport>> Connector::exchange(std::string deed, const Status& status, std::string detail) {
  return report_to_all([this](std::string_view mine) { return bootstrap_.all_gather(mine, deadline_); },
                       {std::move(deed), status, std::move(detail)});
}

void Connector::note(LogLevel level, std::string_view transport, std::string_view reason) {
  reasons_ += fmt::format("{}{}: {}", reasons_.empty() ? "" : "; ", transport, reason);
  log_.write(level, fmt::format("transport {} is not used: {}", transport, reason));
}

// Two rounds: "I could create it, at this address", then "I am connected". An error means that the job cannot go
// on; a transport that does not serve is only noted.
Status Connector::try_transport(const TransportRow& row) {
  auto transport = row.create({.rank = bootstrap_.rank(),
                               .size = bootstrap_.size(),
                               .job_token = bootstrap_.job_token(),
                               .settings = &settings_,
                               .mapped_bytes = sizeof(DirectBlock)});
  auto created = exchange(fmt::format("creates {}", row.name), transport.status(),
                          transport.ok() ? (*transport)->address() : "");
  if (!created.ok()) return created.status();

  std::vector<PeerAddress> peers;
  Status linked;
  for (const int peer : unreached_) {
    const RankReport& theirs = (*created)[static_cast<size_t>(peer)];
    const Status reach = !transport.ok()       ? transport.status()
                         : !theirs.status.ok() ? theirs.status
                                               : (*transport)->reach(theirs.detail);
    if (reach.ok()) {
      peers.push_back({peer, theirs.detail});
    } else {
      note(LogLevel::kInfo, row.name, fmt::format("rank {}: {}", peer, reach.message()));
    }
  }
  if (!peers.empty()) linked = (*transport)->connect(peers, deadline_);

  const size_t left = unreached_.size() - peers.size();
  const auto connected = exchange(fmt::format("connects by {}", row.name), linked, left == 0 ? "" : "left");
  if (!connected.ok()) return connected.status();
  if (const int culprit = culprit_of(*connected); culprit >= 0) {
    const Status& status = (*connected)[static_cast<size_t>(culprit)].status;
    note(LogLevel::kWarn, row.name, fmt::format("rank {}: {}", culprit, status.message()));
    return Status();
  }
  all_reached_ = std::ranges::all_of(*connected, [](const RankReport& report) { return report.detail.empty(); });
  connections_.shared_memory = all_reached_ && row.maps_memory && connections_.transports.empty();
  if (peers.empty()) return Status();
  for (const PeerAddress& peer : peers) {
    connections_.channels[static_cast<size_t>(peer.rank)] = &(*transport)->channel(peer.rank);
    std::erase(unreached_, peer.rank);
  }
  connections_.names.emplace_back(row.name);
  connections_.transports.push_back(transport.take());
  return Status();
}

Result<Connections> Connector::connect() {
  const std::string& forced = settings_.text(Setting::kTransport);
  for (const TransportRow& row : transports()) {
    if (all_reached_) break;
    if (forced != "auto" && forced != row.name) continue;
    UNISONO_RETURN_IF_ERROR(try_transport(row));
  }
  if (!unreached_.empty())
    return unsupported(
        fmt::format("no transport reaches rank {} ({})", unreached_.front(), reasons_));
  if (!all_reached_)
    return unsupported(fmt::format("another rank reaches not all its peers ({})", reasons_));
  return std::move(connections_);
}

}  // namespace

Result<Connections> connect_ranks(Bootstrap& bootstrap, const Settings& settings, const Log& log,
                                  Deadline deadline) {
  return Connector(bootstrap, settings, log, deadline).connect();
}

}  // namespace unisono
