// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace unisono {
namespace {

constexpr size_t kSmallestLanding = 4096;

}  // namespace

LandingPool::~LandingPool() {
  for (LandingBuffer* buffer : free_)
    while (buffer != nullptr) delete std::exchange(buffer, buffer->next);
}

LandingBuffer& LandingPool::take(size_t bytes) {
  const size_t capacity = std::bit_ceil(std::max(bytes, kSmallestLanding));
  LandingBuffer*& head = free_[static_cast<size_t>(std::countr_zero(capacity))];
  if (head != nullptr) {
    free_bytes_ -= capacity;
    return *std::exchange(head, head->next);
  }
  auto* buffer = new LandingBuffer;
  buffer->capacity = capacity;
  buffer->memory = std::make_unique_for_overwrite<std::byte[]>(capacity);
  return *buffer;
}

void LandingPool::give_back(LandingBuffer& buffer) {
  if (free_bytes_ + buffer.capacity > limit_) {
    delete &buffer;
    return;
  }
  free_bytes_ += buffer.capacity;
  LandingBuffer*& head = free_[static_cast<size_t>(std::countr_zero(buffer.capacity))];
  buffer.next = std::exchange(head, &buffer);
}

void UcxChannel::post_send(const Key& key, const void* data, size_t bytes, Completion& completion) {
  if (refused(PostKind::kSend, key, completion)) return;
  Post& post = start(PostKind::kSend, key, bytes, completion);
  ucp_request_param_t parameters;
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  parameters.cb.send = &send_done;
  parameters.user_data = &post;
  parameters.memory_type = UCS_MEMORY_TYPE_HOST;
  bool ended = false;
  post.ended = &ended;
  void* request =
      ucp_tag_send_nbx(endpoint_, data, bytes, engine_.tags.tag(engine_.rank, key), &parameters);
  if (started(post, request, ended)) return;
  const ucs_status_t status = UCS_PTR_RAW_STATUS(request);
  finish(post, status == UCS_OK ? Status() : failure_of(status));
}

// Whether a post ends, or has ended, through its callback, given what UCX returned.
bool UcxChannel::started(Post& post, void* request, bool ended) {
  if (ended) return true;
  post.ended = nullptr;
  if (!UCS_PTR_IS_PTR(request)) return false;
  post.request = request;
  return true;
}

void UcxChannel::send_done(void* request, ucs_status_t status, void* user_data) {
  Post& post = *static_cast<Post*>(user_data);
  ucp_request_free(request);
  post.channel->finish(post, status == UCS_OK ? Status() : post.channel->failure_of(status));
}

void UcxChannel::post_recv(const Key& key, void* data, size_t bytes, Completion& completion) {
  if (refused(PostKind::kRecv, key, completion)) return;
  receive(start(PostKind::kRecv, key, bytes, completion), data);
}

void UcxChannel::receive(Post& post, void* data) {
  ucp_request_param_t parameters;
  // Only the callback is told what was received: it is called even when the message is here
  // already.
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                            UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  parameters.cb.recv = &recv_done;
  parameters.user_data = &post;
  parameters.memory_type = UCS_MEMORY_TYPE_HOST;
  bool ended = false;
  post.ended = &ended;
  void* request =
      ucp_tag_recv_nbx(engine_.worker, data, post.bytes, engine_.tags.tag(peer_, post.key),
                       engine_.tags.match_mask(), &parameters);
  if (!started(post, request, ended))
    finish(post, failure_of(UCS_PTR_RAW_STATUS(request)));
  else if (!ended && left_)
    ucp_request_cancel(engine_.worker,
                       request);  // the peer has left, and this is not here: it never comes
}

void UcxChannel::recv_done(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                           void* user_data) {
  Post& post = *static_cast<Post*>(user_data);
  const ucp_tag_recv_info_t copy = *info;
  ucp_request_free(request);
  post.channel->receive_ended(post, status, copy);
}

void UcxChannel::receive_ended(Post& post, ucs_status_t status, const ucp_tag_recv_info_t& info) {
  if (status == UCS_OK && info.length == post.bytes &&
      ((info.sender_tag ^ engine_.tags.tag(peer_, post.key)) & ~engine_.tags.match_mask()) == 0)
    finish(post, Status());
  else if (status == UCS_OK || status == UCS_ERR_MESSAGE_TRUNCATED)
    finish(post, mismatch(post, info));
  else
    finish(post, failure_of(status));
}

void UcxChannel::post_view(const Key& key, size_t bytes, ViewCompletion& completion) {
  if (refused(PostKind::kView, key, completion)) return;
  Post& post = start(PostKind::kView, key, bytes, completion);
  post.landing = &landing_.take(bytes);
  receive(post, post.landing->memory.get());
}

void UcxChannel::release(ViewCompletion& view) {
  landing_.give_back(*static_cast<LandingBuffer*>(std::exchange(view.handle, nullptr)));
}

bool UcxChannel::refused(PostKind kind, const Key& key, Completion& completion) {
  const bool too_many = key.message > engine_.tags.max_message();
  if (!too_many && (!failed() || (left_ && kind != PostKind::kSend))) [[likely]]
    return false;
  ++engine_.ended;
  completion.done(completion, failed() ? failure_
                                       : unsupported(fmt::format(
                                             "transport ucx: message {} of a pair of ranks, at "
                                             "most {} fit in a world of this size",
                                             key.message, engine_.tags.max_message())));
  return true;
}

Post& UcxChannel::start(PostKind kind, const Key& key, size_t bytes, Completion& completion) {
  Post& post = engine_.posts.take();
  post.channel = this;
  post.completion = &completion;
  post.request = nullptr;
  post.landing = nullptr;
  post.ended = nullptr;
  post.bytes = bytes;
  post.key = key;
  post.kind = kind;
  active_.push_back(post);
  return post;
}

void UcxChannel::finish(Post& post, Status status) {
  active_.remove(post);
  if (post.ended != nullptr) *post.ended = true;
  Completion& completion = *post.completion;
  if (post.landing != nullptr) {
    auto& view = static_cast<ViewCompletion&>(completion);
    if (status.ok()) {
      view.data = post.landing->memory.get();
      view.handle = post.landing;
    } else {
      landing_.give_back(*post.landing);
    }
  }
  engine_.posts.give_back(post);
  ++engine_.ended;
  completion.done(completion, std::move(status));
}

Status UcxChannel::failure_of(ucs_status_t status) {
  if (failed()) return failure_;
  if (later_.ok()) fail_later(peer_failed(peer_, status));
  return later_;
}

Status UcxChannel::mismatch(const Post& post, const ucp_tag_recv_info_t& info) {
  ControlMessage message = make_control(ControlKind::kMismatch, engine_.rank, engine_.token);
  message.key = post.key;
  message.got_signature = engine_.tags.signature_of(info.sender_tag);
  message.expected_bytes = post.bytes;
  message.got_bytes = info.length;
  if (endpoint_ != nullptr) send_control(endpoint_, message);
  fail_later(mismatch(message, peer_, engine_.rank));
  return later_;
}

void UcxChannel::on_mismatch(const ControlMessage& message) {
  fail_later(mismatch(message, engine_.rank, peer_));
}

Status UcxChannel::mismatch(const ControlMessage& message, int sender, int receiver) const {
  const std::string where = fmt::format("message {} of call {}: rank {} sent ", message.key.message,
                                        message.key.sequence, sender);
  const uint64_t expected = message.key.signature & engine_.tags.signature_mask();
  if (message.got_bytes != message.expected_bytes)
    return Status(StatusCode::kMismatch,
                  fmt::format("{}{} bytes, rank {} expected {}", where, message.got_bytes, receiver,
                              message.expected_bytes));
  return Status(StatusCode::kMismatch,
                fmt::format("{}another call (signature {:08x}), rank {} expected {:08x}", where,
                            message.got_signature, receiver, expected));
}

void UcxChannel::fail_later(const Status& status) {
  if (failed() || !later_.ok()) return;
  later_ = status;
  engine_.attention = true;
}

void UcxChannel::settle() {
  if (!later_.ok()) fail(later_);
}

void UcxChannel::leave(const Status& status) {
  left_ = !failed();
  fail(status);
}

void UcxChannel::fail(const Status& status) {
  if (failed()) return;
  failure_ = status;
  cancel_receives();
}

void UcxChannel::abort(const Status& status) {
  left_ = false;
  failure_ = status;
  cancel_receives();
}

// Each ends at once, unless its data already arrives. Its `done` posts nothing new: that would be
// refused.
void UcxChannel::cancel_receives() {
  for (Post *post = active_.first(), *next; post != nullptr; post = next) {
    next = post->next;
    if (post->kind != PostKind::kSend && post->request != nullptr)
      ucp_request_cancel(engine_.worker, post->request);
  }
}

void UcxChannel::give_up() {
  assert(failed());
  while (Post* post = active_.first()) {
    if (post->request != nullptr) ucp_request_free(post->request);  // also disarms its callback
    finish(*post, failure_);
  }
}

}  // namespace unisono
