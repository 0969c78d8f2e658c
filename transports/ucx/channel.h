// SPDX-License-Identifier: Apache-2.0
// The channel to one peer over UCX: tag-matched messages, receives posted straight into their
// place.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "transport/transport.h"
#include "transports/ucx/control.h"
#include "transports/ucx/engine.h"

namespace unisono {

// Memory that a view lands in. Capacities are powers of two.
struct LandingBuffer {
  LandingBuffer* next = nullptr;
  size_t capacity = 0;
  std::unique_ptr<std::byte[]> memory;
};

// Landing buffers of one channel. What is in use is bounded by its user; at most `limit` bytes of
// free ones are kept.
class LandingPool {
 public:
  explicit LandingPool(size_t limit) : limit_(limit) {}
  ~LandingPool();
  LandingPool(const LandingPool&) = delete;
  LandingPool& operator=(const LandingPool&) = delete;

  LandingBuffer& take(size_t bytes);
  void give_back(LandingBuffer& buffer);

 private:
  const size_t limit_;
  size_t free_bytes_ = 0;
  std::array<LandingBuffer*, 64> free_ = {};  // by log2 of the capacity
};

class UcxChannel final : public Channel {
 public:
  // `engine` outlives the channel. At most `landing_bytes` of landing memory are kept for later
  // views.
  UcxChannel(Engine& engine, int peer, size_t landing_bytes)
      : engine_(engine), peer_(peer), landing_(landing_bytes) {}

  void post_send(const Key& key, const void* data, size_t bytes, Completion& completion) override;
  void post_recv(const Key& key, void* data, size_t bytes, Completion& completion) override;
  void post_view(const Key& key, size_t bytes, ViewCompletion& completion) override;
  void release(ViewCompletion& view) override;

  int peer() const { return peer_; }
  ucp_ep_h endpoint() const { return endpoint_; }
  void set_endpoint(ucp_ep_h endpoint) { endpoint_ = endpoint; }

  // Every post, pending or later, ends with `status`; the first failure stays. Called outside of
  // UCX's progress. Receives end here; what UCX works on ends when UCX lets go of its memory.
  void fail(const Status& status);
  // The same, from anywhere: Transport::progress() will call fail().
  void fail_later(const Status& status);
  void settle();  // what fail_later() asked for
  // The same, whatever failed before.
  void abort(const Status& status);
  // As fail(), but what the peer has sent before can still be received.
  void leave(const Status& status);
  // Ends posts that UCX has not let go of. Precondition: failed, and its endpoint was closed.
  void give_up();

  bool failed() const { return !failure_.ok(); }
  const Status& failure() const { return failure_; }
  bool idle() const { return active_.empty(); }

  // The peer says that a message of mine was not what it expected.
  void on_mismatch(const ControlMessage& message);

 private:
  void cancel_receives();
  static void send_done(void* request, ucs_status_t status, void* user_data);
  static void recv_done(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                        void* user_data);

  bool refused(PostKind kind, const Key& key, Completion& completion);
  Post& start(PostKind kind, const Key& key, size_t bytes, Completion& completion);
  static bool started(Post& post, void* request, bool ended);
  void receive(Post& post, void* data);
  void receive_ended(Post& post, ucs_status_t status, const ucp_tag_recv_info_t& info);
  void finish(Post& post, Status status);
  Status failure_of(ucs_status_t status);
  Status mismatch(const Post& post, const ucp_tag_recv_info_t& info);
  Status mismatch(const ControlMessage& message, int sender, int receiver) const;

  Engine& engine_;
  const int peer_;
  ucp_ep_h endpoint_ = nullptr;
  Status failure_;
  Status later_;
  bool left_ = false;
  PostList active_;
  LandingPool landing_;
};

}  // namespace unisono
