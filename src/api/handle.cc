// SPDX-License-Identifier: Apache-2.0
#include "api/handle.h"

#include <fmt/format.h>

#include "algorithms/registry.h"

namespace unisono::api {

Status unusable(const unisono_comm* comm, std::string_view function) {
  if (comm == nullptr) return invalid_argument(fmt::format("{}: comm is NULL", function));
  return invalid_argument(fmt::format(
      "{}: this communicator was made before fork() and is the parent's: create one in the child",
      function));
}

Result<std::optional<Choice>> ChoiceTexts::find(std::string_view text) {
  if (text.empty()) return std::optional<Choice>();
  const std::lock_guard lock(mutex_);
  if (const auto known = parsed_.find(text); known != parsed_.end())
    return std::optional<Choice>(known->second);
  auto choice = parse_choice(text, algorithms());
  if (!choice.ok()) return choice.status().in("choice");
  if (parsed_.size() == kMost) parsed_.clear();
  return std::optional<Choice>(parsed_.emplace(text, choice.take()).first->second);
}

// Numbers of different communicators lie far apart, so that one is not taken for another's.
Requests::Requests() : next_((reinterpret_cast<uintptr_t>(this) >> 4) << 32 | 1) {}

Requests::Node Requests::make_node() {
  std::unordered_map<unisono_request_t, Request*> one;
  one.emplace(0, nullptr);
  const std::lock_guard lock(mutex_);
  started_.reserve(started_.size() + 1);
  return one.extract(one.begin());
}

unisono_request_t Requests::put(Node node, Request* request) {
  const std::lock_guard lock(mutex_);
  const unisono_request_t number = next_++;
  node.key() = number;
  node.mapped() = request;
  started_.insert(std::move(node));
  return number;
}

Requests::Node Requests::take(unisono_request_t number) {
  const std::lock_guard lock(mutex_);
  return started_.extract(number);
}

void Requests::put_back(Node node) {
  const std::lock_guard lock(mutex_);
  started_.insert(std::move(node));
}

}  // namespace unisono::api
