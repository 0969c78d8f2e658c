// SPDX-License-Identifier: Apache-2.0
// What the channels of one transport share: UCX's context and worker, the tags, the records of
// posts.
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "transport/transport.h"
#include "transports/ucx/tag.h"

namespace unisono {

class UcxChannel;
struct LandingBuffer;

enum class PostKind : uint8_t { kSend, kRecv, kView };

// A post that has not ended.
struct Post {
  UcxChannel* channel;
  Completion* completion;
  void* request;           // UCX's; null until UCX has said that it will end later
  LandingBuffer* landing;  // kView, once it has one
  size_t bytes;
  Key key;
  PostKind kind;
  bool* ended;  // while UCX is being called: set if the post ends during that call
  Post* next;
  Post* previous;
};

// A doubly linked list of posts; owns none.
class PostList {
 public:
  Post* first() const { return first_; }
  bool empty() const { return first_ == nullptr; }
  void push_back(Post& post) {
    post.next = nullptr;
    post.previous = last_;
    (last_ != nullptr ? last_->next : first_) = &post;
    last_ = &post;
  }
  void remove(Post& post) {
    (post.previous != nullptr ? post.previous->next : first_) = post.next;
    (post.next != nullptr ? post.next->previous : last_) = post.previous;
  }

 private:
  Post* first_ = nullptr;
  Post* last_ = nullptr;
};

// Records are reused, and allocated 64 at once when there are none.
class PostPool {
 public:
  Post& take() {
    if (free_ == nullptr) grow();
    Post& post = *free_;
    free_ = post.next;
    return post;
  }
  void give_back(Post& post) {
    post.next = free_;
    free_ = &post;
  }

 private:
  void grow();

  Post* free_ = nullptr;
  std::vector<std::unique_ptr<Post[]>> blocks_;
};

// Single-threaded, as its transport.
struct Engine {
  Engine(int my_rank, int size, std::string_view job_token)
      : rank(my_rank), tags(size), token(job_token) {}
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Creates context and worker.
  Status open(const Settings& settings);
  // Half of the token: tells a listener that a connection is one of this job.
  uint64_t client_id() const;
  // Until something may have arrived, at most `longest`.
  void sleep(std::chrono::nanoseconds longest);

  const int rank;
  const TagLayout tags;
  const std::string token;  // of the job
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  int event_fd = -1;
  PostPool posts;
  uint64_t ended = 0;  // posts so far
  bool attention =
      false;  // a channel or a link waits for Transport::progress() to deal with its failure
};

// Hold it to open or close UCX's sockets, and progress before letting go after closing one. UCX
// puts events aside under their descriptor's number; when another thread's worker has got the same
// number before they are looked at, UCX takes the one for the other and aborts.
std::recursive_mutex& descriptor_mutex();

// "what: Connection reset by remote peer".
Status ucx_error(std::string_view what, ucs_status_t status);
Status peer_failed(int peer, ucs_status_t status);

}  // namespace unisono
