// SPDX-License-Identifier: Apache-2.0
// Bytes of hellos and frames.
#include "bootstrap/wire.h"

#include <algorithm>

namespace unisono {
namespace {

template <typename Number>
void put(std::string& bytes, Number number) {
  for (size_t i = 0; i < sizeof(Number); ++i) bytes.push_back(static_cast<char>(number >> (8 * i)));
}

// Takes a number off the front; the caller has checked that it is there.
template <typename Number>
Number take(std::string_view& bytes) {
  Number number = 0;
  for (size_t i = 0; i < sizeof(Number); ++i)
    number |= static_cast<Number>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  bytes.remove_prefix(sizeof(Number));
  return number;
}

}  // namespace

std::string encode(const Hello& hello) {
  std::string bytes = hello.token;
  put(bytes, hello.magic);
  put(bytes, hello.version);
  put(bytes, static_cast<uint32_t>(hello.rank));
  put(bytes, static_cast<uint32_t>(hello.size));
  return bytes;
}

Hello decode_hello(std::string_view bytes) {
  Hello hello;
  hello.token = bytes.substr(0, kTokenBytes);
  bytes.remove_prefix(kTokenBytes);
  hello.magic = take<uint32_t>(bytes);
  hello.version = take<uint32_t>(bytes);
  hello.rank = static_cast<int>(take<uint32_t>(bytes));
  hello.size = static_cast<int>(take<uint32_t>(bytes));
  return hello;
}

Bytes encode(const Frame& frame) {
  std::string bytes;
  bytes.reserve(kFrameHeaderBytes + frame.payload.size());
  put(bytes, static_cast<uint32_t>(frame.kind));
  put(bytes, frame.sequence);
  put(bytes, static_cast<uint64_t>(frame.payload.size()));
  put(bytes, frame.patience_us);
  bytes += frame.payload;
  return std::make_shared<const std::string>(std::move(bytes));
}

FrameHeader decode_header(std::string_view bytes) {
  FrameHeader header;
  header.kind = static_cast<FrameKind>(take<uint32_t>(bytes));
  header.sequence = take<uint32_t>(bytes);
  header.length = take<uint64_t>(bytes);
  header.patience_us = take<uint64_t>(bytes);
  return header;
}

uint64_t patience_of(Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline.left()).count();
  return static_cast<uint64_t>(left - std::min<int64_t>(left / 10, 200'000));
}

std::string encode(const Status& status) {
  std::string payload;
  put(payload, static_cast<uint32_t>(status.code()));
  payload += status.message().substr(0, kMaxTextBytes - payload.size());
  return payload;
}

Status decode_status(std::string_view payload) {
  if (payload.size() < sizeof(uint32_t))
    return Status(StatusCode::kInternal, "a failure without a code");
  auto code = static_cast<StatusCode>(take<uint32_t>(payload));
  if (code <= StatusCode::kInProgress || code > StatusCode::kInternal) code = StatusCode::kInternal;
  return Status(code, std::string(payload));
}

}  // namespace unisono
