// SPDX-License-Identifier: Apache-2.0
// double_binary_tree: two trees, each reduces half of the vector and hands it down again.
//
//        3               4         left: first half        right: second half
//      ╱   ╲           ╱   ╲       In order, the inner nodes of a tree are its odd positions. The
//     1     5         2     6      second tree is the first one shifted by one (p odd) or mirrored
//    ╱ ╲   ╱ ╲       ╱ ╲   ╱ ╲     (p even), so every rank is an inner node of at most one tree.
//   0   2 4   6     1   3 5   0
//
//   sends at most 2n per rank in about 2·log2 p dependent messages
//
// Source: Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction
// and scan", 2009.
#include "algorithms/patterns.h"

namespace unisono {
namespace {

struct Node {
  int parent = -1;  // -1: I am the root
  std::vector<int> children;
};

// Root of the in-order tree over positions [begin, end): the odd distance from `begin` next to the
// middle. `begin` is always even, so inner nodes are odd and leaves even.
int root_of(int begin, int end) {
  const int count = end - begin;
  return count == 1 ? begin : begin + (((count - 1) / 2) | 1);
}

// `position` in the tree over [0, count), in positions.
Node find_node(int position, int count) {
  Node node;
  int begin = 0, end = count, at = root_of(begin, end);
  while (at != position) {
    node.parent = at;
    (position < at ? end : begin) = position < at ? at : at + 1;
    at = root_of(begin, end);
  }
  if (begin < at) node.children.push_back(root_of(begin, at));
  if (at + 1 < end) node.children.push_back(root_of(at + 1, end));
  return node;
}

// My node in tree 0 or 1, in ranks.
Node my_node(const Shape& shape, int tree) {
  const int p = shape.size;
  if (tree == 0) return find_node(shape.rank, p);
  const bool mirrored = p % 2 == 0;
  Node node = find_node(mirrored ? p - 1 - shape.rank : shape.neighbour(-1), p);
  const auto rank_at = [&](int position) {
    return mirrored ? p - 1 - position : (position + 1) % p;
  };
  if (node.parent >= 0) node.parent = rank_at(node.parent);
  for (int& child : node.children) child = rank_at(child);
  return node;
}

Schedule build(const Shape& shape) {
  Builder b(shape, 2);
  const Node nodes[] = {my_node(shape, 0), my_node(shape, 1)};
  for (int tree : {0, 1}) {
    const auto& [parent, children] = nodes[tree];
    if (!children.empty()) b.recv_reduce(children, chunk(tree), finish_if(parent < 0));
    if (parent >= 0) b.send(parent, chunk(tree));
  }
  for (int tree : {0, 1}) {
    const auto& [parent, children] = nodes[tree];
    if (parent >= 0) b.recv(parent, chunk(tree));
    if (!children.empty()) b.send(children, chunk(tree));
  }
  return std::move(b).build();
}

}  // namespace

extern const Algorithm double_binary_tree_row = {
    .name = "double_binary_tree",
    .summary = "two trees, each reduces half of the vector and hands it down again",
    .collective = Collective::kAllReduce,
    .parameters = {},
    .supports = every_rank_contributes,
    .build = build,
};

}  // namespace unisono
