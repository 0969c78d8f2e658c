// SPDX-License-Identifier: Apache-2.0
// Reading and writing frames with Asio.
#include "bootstrap/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace unisono {
namespace {

std::string reason_of(const std::error_code& error) {
  return error == asio::error::eof ? "the connection was closed" : error.message();
}

}  // namespace

Connection::Connection(asio::io_context& loop, Socket socket, Handlers handlers)
    : socket_(loop), handlers_(std::move(handlers)) {
  const Endpoint here = local_end(socket.descriptor());
  const Endpoint there = remote_end(socket.descriptor());
  name_ = text_of(there);
  tune(socket.descriptor());
  socket_.assign(Stream(here.family(), 0), socket.descriptor());
  socket.release();
}

void Connection::connect(const Endpoint& endpoint, std::function<void()> then) {
  name_ = text_of(endpoint);
  socket_.async_connect(
      Stream::endpoint(endpoint.get(), endpoint.length),
      [self = shared_from_this(), then = std::move(then)](const std::error_code& error) {
        if (self->closed_) return;
        if (error) return self->lose(error.message());
        const int descriptor = self->socket_.native_handle();
        const Endpoint there = remote_end(descriptor);
        if (there.length == 0) return self->lose("not connected");
        // With nobody listening, TCP can join a port of ours to itself (RFC 9293, simultaneous
        // open).
        if (there.port() != 0 && text_of(there) == text_of(local_end(descriptor)))
          return self->lose("nobody listens");
        if (!is_same_user(descriptor)) return self->lose("another user listens");
        then();
      });
}

void Connection::read_raw(size_t bytes, std::function<void(std::string)> then) {
  raw_.resize(bytes);
  asio::async_read(
      socket_, asio::buffer(raw_),
      [self = shared_from_this(), then = std::move(then)](const std::error_code& error, size_t) {
        if (self->closed_) return;
        if (error) return self->lose(reason_of(error));
        then(std::move(self->raw_));
      });
}

void Connection::read_frames() {
  asio::async_read(socket_, asio::buffer(header_),
                   [self = shared_from_this()](const std::error_code& error, size_t) {
                     if (self->closed_) return;
                     if (error) return self->lose(reason_of(error));
                     self->read_payload();
                   });
}

void Connection::read_payload() {
  frame_ = Frame{decode_header({header_.data(), header_.size()}), {}};
  if (frame_.length > limit_)
    return lose(fmt::format("expected at most {} bytes, got a frame of {}", limit_, frame_.length));
  frame_.payload.resize(frame_.length);
  asio::async_read(socket_, asio::buffer(frame_.payload),
                   [self = shared_from_this()](const std::error_code& error, size_t) {
                     if (self->closed_) return;
                     if (error) return self->lose(reason_of(error));
                     self->handlers_.on_frame(std::move(self->frame_));
                     if (!self->closed_ && self->reads_) self->read_frames();
                   });
}

void Connection::send(Bytes bytes) {
  if (closed_) return;
  outbox_.push_back(std::move(bytes));
  if (outbox_.size() == 1) send_next();
}

void Connection::send_next() {
  asio::async_write(socket_, asio::buffer(*outbox_.front()),
                    [self = shared_from_this()](const std::error_code& error, size_t) {
                      if (self->closed_) return;
                      // Reading finds the end too, and first what the other side still had to say.
                      if (error) return;
                      self->outbox_.pop_front();
                      if (!self->outbox_.empty()) self->send_next();
                    });
}

void Connection::lose(const std::string& reason) {
  close();
  handlers_.on_lost(reason);
}

Socket Connection::release() {
  closed_ = true;
  return Socket(socket_.release());
}

void Connection::close() {
  closed_ = true;
  std::error_code ignored;
  socket_.close(ignored);
}

bool run_until(asio::io_context& loop, Deadline deadline, const std::function<bool()>& done) {
  const auto guard = asio::make_work_guard(loop);
  while (!done()) {
    loop.restart();
    if (deadline.passed()) {
      loop.poll();
      return done();
    }
    // A day at a time: Asio adds the wait to the clock, which must not overflow.
    loop.run_one_for(std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::hours(24)));
  }
  return true;
}

}  // namespace unisono
