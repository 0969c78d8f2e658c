// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/transport.h"

#include <fmt/format.h>

#include <algorithm>

namespace unisono {
namespace {

using namespace std::chrono_literals;

// How long to wait for peers to read what was sent. What they have not read then, they never will.
constexpr auto kLeavePatience = 1s;
constexpr auto kAbortPatience = 200ms;
constexpr int kRounds = 8;  // of UCX's progress in one call of ours

std::vector<std::unique_ptr<UcxChannel>> make_channels(Engine& engine,
                                                       const TransportContext& context) {
  const auto landing_bytes = static_cast<size_t>(context.settings->integer(Setting::kStagingBytes));
  std::vector<std::unique_ptr<UcxChannel>> channels(static_cast<size_t>(context.size));
  for (int peer = 0; peer < context.size; ++peer)
    if (peer != engine.rank)
      channels[static_cast<size_t>(peer)] =
          std::make_unique<UcxChannel>(engine, peer, landing_bytes);
  return channels;
}

}  // namespace

UcxTransport::UcxTransport(const TransportContext& context)
    : engine_(context.rank, context.size, context.job_token),
      channels_(make_channels(engine_, context)),
      connector_(engine_, channels_) {}

Result<std::unique_ptr<Transport>> UcxTransport::create(const TransportContext& context) {
  if (context.size > TagLayout::kMaxSize)
    return unsupported(
        fmt::format("transport ucx: {} ranks, at most {} fit", context.size, TagLayout::kMaxSize));
  if (context.job_token.size() != Connector::kTokenBytes)
    return invalid_argument(fmt::format("transport ucx: job token of {} bytes, expected {}",
                                        context.job_token.size(), Connector::kTokenBytes));
  auto transport = std::unique_ptr<UcxTransport>(new UcxTransport(context));
  UNISONO_RETURN_IF_ERROR(transport->engine_.open(*context.settings));
  UNISONO_RETURN_IF_ERROR(transport->connector_.listen(*context.settings));
  return std::unique_ptr<Transport>(std::move(transport));
}

UcxTransport::~UcxTransport() {
  if (engine_.worker != nullptr) end(kLeavePatience);
}

int UcxTransport::progress() {
  const uint64_t before = engine_.ended;
  for (int round = 0; round < kRounds && engine_.ended == before; ++round)
    if (ucp_worker_progress(engine_.worker) == 0) break;
  if (engine_.attention) [[unlikely]]
    connector_.settle();
  return static_cast<int>(engine_.ended - before);
}

void UcxTransport::abort() {
  end(kAbortPatience);
}

void UcxTransport::end(std::chrono::nanoseconds patience) {
  if (std::exchange(aborted_, true)) return;
  const Status aborted(StatusCode::kAborted, "the communicator was aborted or destroyed");
  for (const auto& channel : channels_)
    if (channel != nullptr) channel->abort(aborted);
  connector_.say_farewell(patience);
  connector_.close();
}

}  // namespace unisono
