// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/line.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace unisono {
namespace {

bool is_for_later() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

pollfd Line::entry() const {
  const short writes = outbox_.empty() ? 0 : POLLOUT;
  return {socket_.descriptor(), static_cast<short>(POLLIN | writes), 0};
}

void Line::send(Bytes bytes) {
  if (!open() || finishing_) return;
  outbox_.push_back(std::move(bytes));
  write_some();  // most often all of it
}

void Line::finish() {
  finishing_ = true;
  if (open() && outbox_.empty()) shutdown(socket_.descriptor(), SHUT_WR);
}

void Line::close() {
  if (open()) shutdown(socket_.descriptor(), SHUT_RDWR);
  socket_ = Socket();
}

bool Line::end(std::string reason) {
  reason_ = std::move(reason);
  close();
  return true;
}

bool Line::serve(std::deque<Frame>& arrived) {
  if (open())
    write_some();  // where that fails, reading finds the end, and first what was said before
  return open() && read_some(arrived);
}

void Line::write_some() {
  while (!outbox_.empty()) {
    const std::string& bytes = *outbox_.front();
    const ssize_t count = ::send(socket_.descriptor(), bytes.data() + written_,
                                 bytes.size() - written_, MSG_NOSIGNAL);
    if (count < 0) return is_for_later() ? void() : outbox_.clear();
    written_ += static_cast<size_t>(count);
    if (written_ < bytes.size()) continue;
    outbox_.pop_front();
    written_ = 0;
    if (outbox_.empty() && finishing_) finish();
  }
}

bool Line::read_some(std::deque<Frame>& arrived) {
  for (;;) {
    char* const target = in_payload_ ? frame_.payload.data() : header_.data();
    const size_t whole = in_payload_ ? frame_.payload.size() : header_.size();
    const ssize_t count = recv(socket_.descriptor(), target + filled_, whole - filled_, 0);
    // A reset is a close by a process that had not read all.
    if (count == 0 || (count < 0 && errno == ECONNRESET)) return end("the connection was closed");
    if (count < 0) return is_for_later() ? false : end(std::strerror(errno));
    filled_ += static_cast<size_t>(count);
    if (filled_ == whole && take(arrived)) return true;
  }
}

// A header or a payload is complete. Whether the line has ended over it.
bool Line::take(std::deque<Frame>& arrived) {
  filled_ = 0;
  if (!in_payload_) {
    frame_ = Frame{decode_header({header_.data(), header_.size()}), {}};
    if (frame_.length > limit_)
      return end(
          fmt::format("expected at most {} bytes, got a frame of {}", limit_, frame_.length));
    frame_.payload.resize(frame_.length);
    in_payload_ = frame_.length > 0;
    if (in_payload_) return false;
  }
  in_payload_ = false;
  arrived.push_back(std::move(frame_));
  return false;
}

}  // namespace unisono
