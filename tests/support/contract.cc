// SPDX-License-Identifier: Apache-2.0
#include "tests/support/contract.h"

#include <cstring>
#include <random>

#include "tests/support/ranks.h"
#include "transports/registry.h"
#include "transports/simulated/network.h"

namespace unisono::testing {
namespace {

void run_processes_well(int size, const Create& create, const Body& body) {
  for (const int status : run_transport_processes(size, create, body)) EXPECT_EQ(status, 0);
}

// With little staging every pair has a few KiB: fragments, full rings, messages set aside.
Create with_little_staging(const TransportRow& row) {
  return [&row](TransportContext context) {
    static const Settings settings = [] {
      Settings little;
      EXPECT_TRUE(little.set("UNISONO_STAGING_BYTES", "64K", "test").ok());
      return little;
    }();
    context.settings = &settings;
    return row.create(context);
  };
}

// A network is one communicator: a rank's n-th transport is in the n-th.
void run_simulated(int size, const SimulatedOptions& options, const Body& body) {
  const std::vector<std::shared_ptr<SimulatedNetwork>> networks{
      SimulatedNetwork::create(size, options), SimulatedNetwork::create(size, options)};
  std::vector<size_t> made(static_cast<size_t>(size));  // by rank; each touches its own
  run_transport_threads(
      size,
      [&](const TransportContext& context) -> Result<std::unique_ptr<Transport>> {
        return networks.at(made[static_cast<size_t>(context.rank)]++)->transport(context.rank);
      },
      body);
}

}  // namespace

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const std::string& transport : built_transports()) {
    const TransportRow& row = *find_transport(transport);
    for (const bool little : {false, true}) {
      const std::string name = transport + (little ? "_little" : "");
      const Create create = little ? with_little_staging(row) : Create(row.create);
      all.push_back({name + "_threads", [create](int size, const Body& body) {
                       run_transport_threads(size, create, body);
                     }});
      all.push_back({name + "_processes", [create](int size, const Body& body) {
                       run_processes_well(size, create, body);
                     }});
    }
  }
  for (const bool rendezvous : {true, false})
    all.push_back({rendezvous ? "simulated_rendezvous" : "simulated_eager",
                   [rendezvous](int size, const Body& body) {
                     run_simulated(size, {.seed = 7, .rendezvous = rendezvous}, body);
                   }});
  return all;
}

Data payload(int from, int to, uint32_t message, size_t bytes) {
  Data data(bytes);
  std::minstd_rand random(static_cast<unsigned>(from * 64 + to + 1) * 1009u + message);
  const auto first = random();
  for (size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>((first + i * 131 + (i >> 8) * 7) & 0xff);
  return data;
}

void expect_payload(const void* data, const Data& expected, uint32_t message) {
  if (expected.empty()) return;
  EXPECT_EQ(std::memcmp(data, expected.data(), expected.size()), 0)
      << "message " << message << " of " << expected.size() << " bytes";
}

void check_view(TransportRank& me, int peer, Ended& view, const Data& expected, uint32_t message) {
  me.wait(view);
  ASSERT_TRUE(view.status.ok()) << view.status.message();
  expect_payload(view.data, expected, message);
  me.transport->channel(peer).release(view);
}

}  // namespace unisono::testing
