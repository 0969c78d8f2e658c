// SPDX-License-Identifier: Apache-2.0
// Ranks that have a transport and nothing else, as threads or forked processes, for the tests of
// the transport contract.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace unisono::testing {

// A post whose end can be waited for.
struct Ended : ViewCompletion {
  Ended() {
    done = [](Completion& self, Status status) {
      auto& ended = static_cast<Ended&>(self);
      ended.status = std::move(status);
      ++ended.times;
    };
  }
  Status status;
  int times = 0;  // must become 1
};

// What `body` gets. Addresses, barriers and notes go over memory that all ranks share.
class TransportRank {
 public:
  struct Board;

  using Create = std::function<Result<std::unique_ptr<Transport>>(const TransportContext&)>;

  TransportRank(int rank, int size, Board& board, const Create& create)
      : rank(rank), size(size), create_(create), board_(board) {}

  const int rank, size;
  std::unique_ptr<Transport> transport;

  // A new one in place of `transport`, which is returned (null at first). Not connected.
  std::unique_ptr<Transport> renew();

  // Publishes my address, connects to all others, and waits until all have.
  Status connect(std::chrono::nanoseconds timeout = std::chrono::seconds(20));
  void publish_address();
  std::vector<PeerAddress> peer_addresses() const;  // waits for those of all ranks

  // Progresses and naps until `ready`; a failure of the test after 30 s.
  void wait_until(const std::function<bool()>& ready, const char* what);
  void wait(const Ended& post) {
    wait_until([&] { return post.times > 0; }, "a post");
  }
  // Progresses until all ranks have come here.
  void barrier();

 private:
  const Create create_;
  Board& board_;
  int barriers_ = 0;
  int generation_ = -1;  // of `transport`
};

using Body = std::function<void(TransportRank&)>;
using Create = TransportRank::Create;

// Each makes `size` transports, one a rank, connects them when `connect`, runs `body` on each rank
// and waits for all.
void run_transport_threads(int size, const Create& create, const Body& body, bool connect = true);
// Returns the wait statuses of the processes; one that exits with 0 has passed its expectations.
std::vector<int> run_transport_processes(int size, const Create& create, const Body& body,
                                         bool connect = true);

}  // namespace unisono::testing
