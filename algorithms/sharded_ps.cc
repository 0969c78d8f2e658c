// SPDX-License-Identifier: Apache-2.0
// sharded_ps: every rank is the server of one chunk; all send it theirs, it sends the sum to all.
//
//   chunk 0 1 2 3         reduce: everyone sends chunk c to its owner, which adds in rank order
//   owner 0 1 2 3         gather: the owner sends the sum to everyone
//   rank r starts at r+1, then r+2, …, so that no owner is everyone's first
//
//   sends 2(p−1)/p·n per rank in 2 dependent messages, fan-in p−1
//   window=w: an owner takes from w ranks at a time, in 2·⌈(p−1)/w⌉ rounds, adding as they come
//   dedicated servers: they own the chunks, the others none
//
// Source: Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014,
// with the servers placed on the workers.
#include <algorithm>

#include "algorithms/direct/forms.h"
#include "algorithms/patterns.h"

namespace unisono {
namespace {

constexpr ParameterSpec kParameters[] = {
    {"window", "0", 0, 1 << 20, "how many ranks send to one owner at a time; 0: all, in one pass"},
};

// Keeps at most `window` of a kind of steps open: each one starts after the one `window` before it.
class Window {
 public:
  Window(Builder& b, int window) : b_(b), window_(static_cast<size_t>(window)) {}
  void add(Builder::StepId step) {
    steps_.push_back(step);
    if (steps_.size() > window_) b_.order(steps_[steps_.size() - 1 - window_], step);
  }

 private:
  Builder& b_;
  size_t window_;
  std::vector<Builder::StepId> steps_;
};

Schedule build(const Shape& shape) {
  const int p = shape.size, given = shape.parameters.integer("window");
  const int window = given == 0 ? p : given;
  const int owners = shape.servers.empty() ? p : static_cast<int>(shape.servers.size());
  // The chunk that `rank` owns, or -1.
  const auto owned = [&](int rank) {
    if (shape.servers.empty()) return rank;
    const auto server = std::ranges::find(shape.servers, rank);
    return server == shape.servers.end() ? -1 : static_cast<int>(server - shape.servers.begin());
  };
  const int mine = owned(shape.rank);

  Builder b(shape, owners);
  Window sends(b, window), receives(b, window);
  for (int distance = 1; distance < p; ++distance) {
    const int owner = shape.neighbour(+distance);
    if (shape.contributes(shape.rank) && owned(owner) >= 0)
      sends.add(b.send(owner, chunk(owned(owner))));
  }
  if (mine >= 0) {
    std::vector<int> group;
    int left = static_cast<int>(other_contributors(shape).size());
    for (int distance = 1; distance < p; ++distance) {
      const int giver = shape.neighbour(-distance);
      if (!shape.contributes(giver)) continue;
      group.push_back(giver);
      if (--left > 0 && static_cast<int>(group.size()) < window) continue;
      b.recv_reduce(group, chunk(mine), finish_if(left == 0));
      group.clear();
    }
  }
  for (int distance = 1; distance < p; ++distance) {
    if (mine >= 0) sends.add(b.send(shape.neighbour(+distance), chunk(mine)));
    const int owner = shape.neighbour(-distance);
    if (owned(owner) >= 0) receives.add(b.recv(owner, chunk(owned(owner))));
  }
  return std::move(b).build();
}

}  // namespace

extern const Algorithm sharded_ps_row = {
    .name = "sharded_ps",
    .summary = "every rank is the server of one chunk: all send it theirs, it sends the sum to all",
    .collective = Collective::kAllReduce,
    .parameters = kParameters,
    .supports = some_rank_contributes,
    .build = build,
    .forms = sharded_ps_forms,
};

}  // namespace unisono
