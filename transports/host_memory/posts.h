// SPDX-License-Identifier: Apache-2.0
// Posts: a queue of posted completions, linked through themselves.
#pragma once

#include <utility>

#include "transport/transport.h"

namespace unisono::host_memory {

class Posts {
 public:
  bool empty() const { return first_ == nullptr; }
  Completion* first() const { return first_; }

  void push(Completion& post) {
    post.post.next = nullptr;
    *end_ = &post;
    end_ = &post.post.next;
  }
  void pop() {
    first_ = first_->post.next;
    if (first_ == nullptr) end_ = &first_;
  }
  // Takes out the oldest that `is_it` accepts; null when there is none.
  template <typename Predicate>
  Completion* take(Predicate is_it) {
    for (Completion** at = &first_; *at != nullptr; at = &(*at)->post.next) {
      Completion* const post = *at;
      if (!is_it(*post)) continue;
      *at = post->post.next;
      if (*at == nullptr) end_ = at;
      return post;
    }
    return nullptr;
  }

  Posts() = default;
  Posts(const Posts&) = delete;
  Posts& operator=(const Posts&) = delete;

 private:
  Completion* first_ = nullptr;
  Completion** end_ = &first_;
};

}  // namespace unisono::host_memory
