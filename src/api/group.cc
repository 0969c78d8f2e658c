// SPDX-License-Identifier: Apache-2.0
#include "api/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

namespace unisono::api {
namespace {

constexpr size_t kInFlight = 8;  // all-reduces at once
constexpr size_t kPackBytes = size_t{1}
                              << 20;  // of one pack, so that packing and travelling overlap

size_t bytes_of(const AllReduceCall& call) {
  return call.count * size_of(call.type);
}

// What runs as one all-reduce: a call as it is, or several of one type, op and options.
struct Unit {
  std::vector<const AllReduceCall*> parts;
  size_t bytes = 0;
};

// A function of counts, types, ops and options alone, so the same on all ranks.
std::vector<Unit> make_units(const std::vector<AllReduceCall>& calls, size_t fuse_bytes) {
  const size_t most_bytes = std::max(kPackBytes, fuse_bytes);
  std::vector<Unit> units;
  std::vector<size_t> growing;  // the last unit of each type, op and options
  for (const AllReduceCall& call : calls) {
    const size_t bytes = bytes_of(call);
    if (bytes <= fuse_bytes && call.feedback == nullptr) {
      const auto found = std::ranges::find_if(growing, [&](size_t unit) {
        const AllReduceCall& first = *units[unit].parts.front();
        return first.type == call.type && first.op == call.op && first.choice == call.choice &&
               first.codec == call.codec && first.max_error == call.max_error;
      });
      if (found == growing.end()) {
        growing.push_back(units.size());
      } else if (units[*found].bytes + bytes > most_bytes) {
        *found = units.size();
      } else {
        units[*found].parts.push_back(&call);
        units[*found].bytes += bytes;
        continue;
      }
    }
    units.push_back({{&call}, bytes});
  }
  return units;
}

// FNV-1a over the counts; never 0, which is a vector of one part.
uint64_t layout_of(const Unit& unit) {
  uint64_t hash = 14695981039346656037u;
  for (const AllReduceCall* part : unit.parts) hash = (hash ^ part->count) * 1099511628211u;
  return hash | 1;
}

// The units of one group on their way: at most kInFlight, ended in the order of their start.
class Run {
 public:
  Run(Communicator& communicator, std::vector<Pack>& packs)
      : communicator_(communicator), packs_(packs) {
    packs_.resize(kInFlight);
  }

  Status run(const std::vector<Unit>& units) {
    Status status;
    for (const Unit& unit : units) {
      if (started_ - finished_ == kInFlight) status = finish_oldest();
      if (status.ok()) status = start(unit);
      if (!status.ok()) break;
    }
    while (finished_ != started_) {
      const Status last = finish_oldest();
      if (status.ok()) status = last;
    }
    return status;
  }

  // After an exception. The other ranks run what this one could not start, so the communicator
  // cannot go on.
  void give_up() {
    communicator_.abort();
    while (finished_ != started_) (void)finish_oldest();
  }

 private:
  struct Running {
    const Unit* unit;
    Request* request;
  };

  Status start(const Unit& unit);
  Status finish_oldest();

  Communicator& communicator_;
  std::vector<Pack>& packs_;
  std::array<Running, kInFlight> running_;
  size_t started_ = 0, finished_ = 0;
};

Status Run::start(const Unit& unit) {
  AllReduceCall call = *unit.parts.front();
  if (unit.parts.size() > 1) {
    Pack& pack = packs_[started_ % kInFlight];
    if (pack.bytes < unit.bytes) {
      pack.memory = std::make_unique_for_overwrite<std::byte[]>(unit.bytes);
      pack.bytes = unit.bytes;
    }
    call.input = call.output = pack.memory.get();
    call.count = unit.bytes / size_of(call.type);
    call.layout = layout_of(unit);
    std::byte* to = pack.memory.get();
    for (const AllReduceCall* part : unit.parts) {
      if (part->count != 0) std::memcpy(to, part->input, bytes_of(*part));
      to += bytes_of(*part);
    }
  }
  auto request = communicator_.start(call);
  if (!request.ok()) return request.status();
  running_[started_++ % kInFlight] = {&unit, *request};
  return Status();
}

Status Run::finish_oldest() {
  const size_t slot = finished_++ % kInFlight;
  const auto& [unit, request] = running_[slot];
  UNISONO_RETURN_IF_ERROR(communicator_.wait(request));
  if (unit->parts.size() == 1) return Status();
  const std::byte* from = packs_[slot].memory.get();
  for (const AllReduceCall* part : unit->parts) {
    if (part->count != 0) std::memcpy(part->output, from, bytes_of(*part));
    from += bytes_of(*part);
  }
  return Status();
}

}  // namespace

Status Group::begin() {
  if (open_) return invalid_argument("a group is open already, and groups do not nest");
  open_ = true;
  return Status();
}

Status Group::note(Result<AllReduceCall> call) {
  if (call.ok()) {
    calls_.push_back(call.take());
    return Status();
  }
  if (failure_.ok()) failure_ = call.status().in("a call of the group");
  return call.status();
}

Status Group::discard() {
  if (!open_) return invalid_argument("no group is open: expected unisono_group_begin() before");
  open_ = false;
  calls_.clear();
  failure_ = Status();
  return Status();
}

Status Group::end() {
  const std::vector<AllReduceCall> calls = std::exchange(calls_, {});
  const Status failure = failure_;
  UNISONO_RETURN_IF_ERROR(discard());
  UNISONO_RETURN_IF_ERROR(failure);
  const std::vector<Unit> units = make_units(calls, fuse_bytes_);
  Run run(communicator_, packs_);
  try {
    return run.run(units);
  } catch (...) {
    run.give_up();
    throw;
  }
}

}  // namespace unisono::api
