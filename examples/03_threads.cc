// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process: no launcher, no environment.
#include <cstdint>
#include <cstdio>
#include <thread>
#include <unisono/unisono.hpp>
#include <vector>

int main() try {
  std::vector<unisono::Communicator> ranks = unisono::Communicator::local(4);
  std::vector<int64_t> sums(ranks.size());
  {
    std::vector<std::jthread> threads;
    for (unisono::Communicator& communicator : ranks)
      threads.emplace_back([&] {
        const auto rank = static_cast<size_t>(communicator.rank());
        std::vector<int64_t> values{communicator.rank() + 1};
        communicator.all_reduce(values);
        sums[rank] = values[0];
      });
  }
  for (size_t rank = 0; rank < sums.size(); ++rank)
    std::printf("rank %zu of %zu: %lld\n", rank, sums.size(), static_cast<long long>(sums[rank]));
} catch (const unisono::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
