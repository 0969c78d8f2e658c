// SPDX-License-Identifier: Apache-2.0
// Connection: one end of a framed stream, inside an Asio loop. Private to the star.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "bootstrap/asio.h"
#include "bootstrap/socket.h"
#include "bootstrap/wire.h"

namespace unisono {

// Not thread-safe: used by the thread that runs the loop. Owned by shared_ptr because operations
// that the kernel has not given back yet keep it alive. No handler is called after close().
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Stream = asio::generic::stream_protocol;

  struct Handlers {
    std::function<void(Frame)> on_frame;
    std::function<void(const std::string& reason)>
        on_lost;  // once; the connection is closed by then
  };

  Connection(asio::io_context& loop, Socket socket, Handlers handlers);
  ~Connection() = default;

  // Members: calls `then` when the connection stands, on_lost when it cannot be made.
  void connect(const Endpoint& endpoint, std::function<void()> then);
  // Exactly `bytes` of anything, before the first read_frames().
  void read_raw(size_t bytes, std::function<void(std::string)> then);
  // Reads frames of at most limit() bytes until closed; a longer one is a lost connection.
  void read_frames();
  // From within on_frame: the bytes after that frame are left to whoever takes the socket over.
  void stop_reading() { reads_ = false; }
  Socket release();  // closes, but for the socket
  void set_limit(size_t bytes) { limit_ = bytes; }

  void send(Bytes bytes);
  bool sent_all() const { return outbox_.empty(); }
  void close();
  bool closed() const { return closed_; }
  const std::string& name() const { return name_; }  // of the other end

 private:
  void read_payload();
  void send_next();
  void lose(const std::string& reason);

  Stream::socket socket_;
  Handlers handlers_;
  std::string raw_, name_;
  std::array<char, kFrameHeaderBytes> header_{};
  Frame frame_;
  size_t limit_ = kMaxTextBytes;
  std::deque<Bytes> outbox_;
  bool closed_ = false;
  bool reads_ = true;
};

// Runs handlers until `done` or the deadline; says which.
bool run_until(asio::io_context& loop, Deadline deadline, const std::function<bool()>& done);

}  // namespace unisono
