// SPDX-License-Identifier: Apache-2.0
// The same in C++: a sum at once, an average while other work is done, and what ran.
#include <cstdio>
#include <unisono/unisono.hpp>
#include <vector>

int main() try {
  auto communicator = unisono::Communicator::from_environment();

  std::vector<float> values(1000, static_cast<float>(communicator.rank()));
  communicator.all_reduce(values);

  std::vector<double> losses{1.0 + communicator.rank()};
  unisono::Request request = communicator.start(losses, unisono::Op::kAvg, "one_shot");
  // ... other work ...
  request.wait();

  const unisono::Plan plan = communicator.plan<float>(values.size());
  std::printf("rank %d of %d: sum %g, mean loss %g, by %s (%s)\n", communicator.rank(),
              communicator.size(), values[0], losses[0], plan.choice.c_str(), plan.reason.c_str());
} catch (const unisono::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
