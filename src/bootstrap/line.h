// SPDX-License-Identifier: Apache-2.0
// Line: one control connection, read and written by the watcher.
#pragma once

#include <poll.h>

#include <array>
#include <deque>
#include <string>

#include "bootstrap/socket.h"
#include "bootstrap/wire.h"

namespace unisono {

// One thread at a time. Never blocks.
class Line {
 public:
  // Frames of at most `limit` bytes are read; a longer one ends the line.
  Line(Socket socket, size_t limit) : socket_(std::move(socket)), limit_(limit) {}

  bool open() const { return socket_.valid(); }
  pollfd entry() const;
  void send(Bytes bytes);
  // Moves what can be moved. Whether the line has ended, for reason(); what came before is in
  // `arrived`.
  bool serve(std::deque<Frame>& arrived);
  // Nothing more will be said: the other side reads that once it has read the rest.
  void finish();
  // At once, also where a forked child still has the descriptor.
  void close();
  const std::string& reason() const { return reason_; }

 private:
  bool read_some(std::deque<Frame>& arrived);
  void write_some();
  bool take(std::deque<Frame>& arrived);
  bool end(std::string reason);

  Socket socket_;
  const size_t limit_;
  std::array<char, kFrameHeaderBytes> header_{};
  Frame frame_;
  bool in_payload_ = false;
  size_t filled_ = 0;  // of the header or the payload
  std::deque<Bytes> outbox_;
  size_t written_ = 0;  // of its first
  bool finishing_ = false;
  std::string reason_;
};

}  // namespace unisono
