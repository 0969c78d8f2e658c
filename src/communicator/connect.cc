// SPDX-License-Identifier: Apache-2.0
#include "communicator/connect.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/pack.h"
#include "direct/block.h"
#include "transports/registry.h"

namespace unisono {
namespace {

// What a rank tells in a round, twice: "I could create it, at this address", then "I am connected".
struct Word {
  Status status;
  std::string detail;
  bool knows_why;  // its failure is its own, not that of another rank
};

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
  Result<std::vector<Word>> exchange(const Status& status, const std::string& detail);
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

Result<std::vector<Word>> Connector::exchange(const Status& status, const std::string& detail) {
  const std::string fields[] = {status.ok() ? "" : std::string(status.message()), detail,
                                status.code() == StatusCode::kPeerFailed ? "" : "knows"};
  auto gathered = bootstrap_.all_gather(pack(fields), deadline_);
  if (!gathered.ok()) return gathered.status();
  std::vector<Word> words;
  for (const std::string& bytes : *gathered) {
    auto parts = unpack(bytes, 3);
    if (!parts) return Status(StatusCode::kMismatch, "a rank runs another version of unisono");
    words.push_back({(*parts)[0].empty() ? Status() : Status(StatusCode::kUnsupported, (*parts)[0]),
                     std::move((*parts)[1]), !(*parts)[2].empty()});
  }
  return words;
}

void Connector::note(LogLevel level, std::string_view transport, std::string_view reason) {
  reasons_ += fmt::format("{}{}: {}", reasons_.empty() ? "" : "; ", transport, reason);
  log_.write(level, fmt::format("transport {} is not used: {}", transport, reason));
}

// One round. An error means that the job cannot go on; a transport that does not serve is only
// noted.
Status Connector::try_transport(const TransportRow& row) {
  auto transport = row.create({.rank = bootstrap_.rank(),
                               .size = bootstrap_.size(),
                               .job_token = bootstrap_.job_token(),
                               .settings = &settings_,
                               .mapped_bytes = sizeof(DirectBlock)});
  auto created = exchange(transport.status(), transport.ok() ? (*transport)->address() : "");
  if (!created.ok()) return created.status();

  std::vector<PeerAddress> peers;
  Status failed = transport.status();
  for (const int peer : unreached_) {
    const Word& word = (*created)[static_cast<size_t>(peer)];
    const Status reach = !transport.ok()     ? transport.status()
                         : !word.status.ok() ? word.status
                                             : (*transport)->reach(word.detail);
    if (reach.ok()) {
      peers.push_back({peer, word.detail});
    } else {
      note(LogLevel::kInfo, row.name, fmt::format("rank {}: {}", peer, reach.message()));
    }
  }
  if (transport.ok() && !peers.empty()) failed = (*transport)->connect(peers, deadline_);

  const size_t left = unreached_.size() - peers.size();
  auto connected = exchange(peers.empty() ? Status() : failed, left == 0 ? "" : "left");
  if (!connected.ok()) return connected.status();
  const auto failure = [&](const Word& word) { return !word.status.ok() && word.knows_why; };
  auto culprit = std::ranges::find_if(*connected, failure);
  if (culprit == connected->end())
    culprit = std::ranges::find_if(*connected, [](const Word& word) { return !word.status.ok(); });
  if (culprit != connected->end()) {
    note(LogLevel::kWarn, row.name,
         fmt::format("rank {}: {}", culprit - connected->begin(), culprit->status.message()));
    return Status();
  }
  all_reached_ =
      std::ranges::all_of(*connected, [](const Word& word) { return word.detail.empty(); });
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
