// SPDX-License-Identifier: Apache-2.0
// A training step's gradients, of many sizes and types, as one call: small ones travel packed
// together.
#include <cstdint>
#include <cstdio>
#include <unisono/unisono.hpp>
#include <vector>

int main() try {
  auto communicator = unisono::Communicator::from_environment();

  std::vector<std::vector<float>> gradients;
  for (const size_t count : {3, 70'000, 128, 1, 4096})
    gradients.emplace_back(count, static_cast<float>(communicator.rank() + 1));
  std::vector<uint64_t> samples{32};

  communicator.group([&] {
    for (std::vector<float>& gradient : gradients)
      communicator.all_reduce(gradient, unisono::Op::kAvg);
    communicator.all_reduce(samples, unisono::Op::kSum);
  });

  std::printf("rank %d of %d: mean gradient %g, %llu samples\n", communicator.rank(),
              communicator.size(), gradients.front().front(),
              static_cast<unsigned long long>(samples[0]));
} catch (const unisono::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
