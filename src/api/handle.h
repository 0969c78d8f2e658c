// SPDX-License-Identifier: Apache-2.0
// What stands behind a unisono_comm_t.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "api/error.h"
#include "api/fork_guard.h"
#include "api/group.h"
#include "communicator/communicator.h"

namespace unisono::api {

// Choices by their text, parsed once. Thread-safe.
class ChoiceTexts {
 public:
  // Errors: as parse_choice. Empty for the empty text.
  Result<std::optional<Choice>> find(std::string_view text);

 private:
  static constexpr size_t kMost = 256;  // then it starts again
  std::mutex mutex_;
  std::map<std::string, Choice, std::less<>> parsed_;
};

// The started calls of a communicator, by numbers that are never used twice. Thread-safe.
class Requests {
 public:
  using Node = std::unordered_map<unisono_request_t, Request*>::node_type;

  Requests();
  // Room for one more, so that put() cannot fail once a call has started.
  Node make_node();
  unisono_request_t put(Node node, Request* request);
  // Empty if there is none: it has ended, or is another communicator's, or another thread is at it.
  Node take(unisono_request_t number);
  void put_back(Node node);

 private:
  std::mutex mutex_;
  unisono_request_t next_;
  std::unordered_map<unisono_request_t, Request*> started_;
};

}  // namespace unisono::api

struct unisono_comm {
  unisono_comm(std::unique_ptr<unisono::Communicator> connected, size_t fuse_bytes)
      : core(std::move(connected)), group(*core, fuse_bytes) {}

  std::unique_ptr<unisono::Communicator> core;
  unisono::api::Group group;
  unisono::api::ChoiceTexts choices;
  unisono::api::Requests requests;
  unisono::api::ForkGuard fork_guard;
  unisono::api::SharedErrorText error;
};

namespace unisono::api {

// Whether this process may use `comm`: not null, and not from before a fork.
inline bool is_usable(const unisono_comm* comm) {
  return comm != nullptr && !comm->fork_guard.in_child();
}
// Why not. `function` is the caller's.
Status unusable(const unisono_comm* comm, std::string_view function);

}  // namespace unisono::api
