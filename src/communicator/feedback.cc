// SPDX-License-Identifier: Apache-2.0
#include "communicator/feedback.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "communicator/communicator.h"

namespace unisono {
namespace {

// The start of an export; the name, both residuals and a checksum of all before it follow. In the
// byte order of the machines that we run on, the lowest byte first.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t name_bytes;
  uint64_t count;
  uint64_t steps, resets;
  Feedback::Ownership ownership;
};
static_assert(sizeof(Header) == 56, "an export has no padding");
constexpr char kMagic[8] = {'u', 'n', 'i', 's', 'o', 'n', 'o', 'F'};
constexpr uint32_t kVersion = 1;

// FNV-1a with 64 bits.
uint64_t checksum(std::string_view bytes) {
  uint64_t value = 14695981039346656037u;
  for (const char byte : bytes) value = (value ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  return value;
}

void append(std::string& bytes, const void* data, size_t size) {
  bytes.append(static_cast<const char*>(data), size);
}

}  // namespace

void Feedback::Free::operator()(float* memory) const {
  std::free(memory);
}

Result<std::unique_ptr<Feedback>> Feedback::create(std::string name, size_t count) {
  if (count == 0)
    return invalid_argument(fmt::format("feedback '{}': expected a count from 1", name));
  // Pages that are never written take no memory.
  const auto zeros = [&] { return Memory(static_cast<float*>(std::calloc(count, sizeof(float)))); };
  Memory worker = zeros(), owner = zeros();
  if (worker == nullptr || owner == nullptr)
    return Status(StatusCode::kOutOfResources,
                  fmt::format("feedback '{}': no memory for 2 × {} float32", name, count));
  return std::unique_ptr<Feedback>(
      new Feedback(std::move(name), count, std::move(worker), std::move(owner)));
}

Feedback::State Feedback::query() const {
  double squares = 0;
  for (size_t i = 0; i < count_; ++i) {
    const double worker = worker_[i], owner = owner_[i];
    squares += worker * worker + owner * owner;
  }
  return {std::sqrt(squares), steps_, resets_};
}

Status Feedback::check_idle() const {
  if (!in_use_) return Status();
  return invalid_argument(
      fmt::format("feedback '{}' is in use by a call that has not ended", name_));
}

Status Feedback::reset() {
  UNISONO_RETURN_IF_ERROR(check_idle());
  std::fill_n(worker_.get(), count_, 0.0f);
  std::fill_n(owner_.get(), count_, 0.0f);
  ++resets_;
  return Status();
}

Status Feedback::rebind(const Communicator& communicator) {
  UNISONO_RETURN_IF_ERROR(check_idle());
  give_owners_to_worker();
  communicator_ = communicator.identity();
  bound_ = true;
  return Status();
}

Status Feedback::check(const Communicator& communicator, size_t count, ReduceOp op) const {
  UNISONO_RETURN_IF_ERROR(check_idle());
  if (count != count_)
    return invalid_argument(
        fmt::format("feedback '{}' has {} elements, the call {}", name_, count_, count));
  if (bound_ && communicator_.lock() != communicator.identity())
    return invalid_argument(
        fmt::format("feedback '{}' belongs to another communicator: rebind it first", name_));
  if (op != ReduceOp::kSum && op != ReduceOp::kAvg)
    return unsupported(
        fmt::format("feedback '{}': expected the op sum or avg, not {}", name_, name_of(op)));
  return Status();
}

Residuals Feedback::begin(const Communicator& communicator, const Ownership& ownership) {
  communicator_ = communicator.identity();
  bound_ = in_use_ = true;
  if (ownership != ownership_) give_owners_to_worker();
  ownership_ = ownership;
  return {worker_.get(), owner_.get()};
}

void Feedback::end(bool completed) {
  in_use_ = false;
  steps_ += completed;
}

void Feedback::give_owners_to_worker() {
  for (size_t i = 0; i < count_; ++i) {
    if (owner_[i] == 0) continue;
    worker_[i] += owner_[i] * static_cast<float>(ownership_.divisor);
    owner_[i] = 0;
  }
}

size_t Feedback::export_bytes() const {
  return sizeof(Header) + name_.size() + 2 * count_ * sizeof(float) + sizeof(uint64_t);
}

Result<std::string> Feedback::export_state() const {
  UNISONO_RETURN_IF_ERROR(check_idle());
  Header header{.magic = {},
                .version = kVersion,
                .name_bytes = static_cast<uint32_t>(name_.size()),
                .count = count_,
                .steps = steps_,
                .resets = resets_,
                .ownership = ownership_};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  const size_t residual_bytes = count_ * sizeof(float);
  std::string bytes;
  bytes.reserve(export_bytes());
  append(bytes, &header, sizeof(header));
  bytes += name_;
  append(bytes, worker_.get(), residual_bytes);
  append(bytes, owner_.get(), residual_bytes);
  const uint64_t sum = checksum(bytes);
  append(bytes, &sum, sizeof(sum));
  return bytes;
}

Status Feedback::import_state(std::string_view bytes) {
  UNISONO_RETURN_IF_ERROR(check_idle());
  const auto refuse = [&](const std::string& why) {
    return invalid_argument(fmt::format("import into feedback '{}': {}", name_, why));
  };
  Header header;
  uint64_t sum;
  if (bytes.size() < sizeof(header) + sizeof(sum) ||
      std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0)
    return refuse("this is no export of a feedback");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.version != kVersion)
    return refuse(fmt::format("version {}, expected {}", header.version, kVersion));
  const std::string_view checked = bytes.substr(0, bytes.size() - sizeof(sum));
  std::memcpy(&sum, bytes.data() + checked.size(), sizeof(sum));
  if (sum != checksum(checked)) return refuse("the export is damaged: its checksum is wrong");
  const std::string_view rest = checked.substr(sizeof(header));
  const size_t residual_bytes = count_ * sizeof(float);
  if (header.count != count_)
    return refuse(fmt::format("the export has {} elements, expected {}", header.count, count_));
  if (rest.size() != header.name_bytes + 2 * residual_bytes)
    return refuse("the export is damaged: its length is wrong");
  if (const auto name = rest.substr(0, header.name_bytes); name != name_)
    return refuse(fmt::format("the export is of '{}'", name));

  std::memcpy(worker_.get(), rest.data() + name_.size(), residual_bytes);
  std::memcpy(owner_.get(), rest.data() + name_.size() + residual_bytes, residual_bytes);
  steps_ = header.steps;
  resets_ = header.resets;
  ownership_ = header.ownership;
  return Status();
}

}  // namespace unisono
