// SPDX-License-Identifier: Apache-2.0
// A bootstrap over the caller's own fixed-size all-gather.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bootstrap/bootstrap.h"
#include "bootstrap/token.h"

namespace unisono {
namespace {

class CallbackBootstrap final : public Bootstrap {
 public:
  CallbackBootstrap(int rank, int size, AllGatherFunction function)
      : rank_(rank), size_(size), function_(std::move(function)) {}

  Status agree_on_token() {
    const std::string mine = random_token();
    std::string all(static_cast<size_t>(size_) * kTokenBytes, '\0');
    UNISONO_RETURN_IF_ERROR(function_(mine.data(), all.data(), kTokenBytes));
    token_ = all.substr(0, kTokenBytes);
    return Status();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string job_token() const override { return token_; }

  Result<std::vector<std::string>> all_gather(std::string_view mine, Deadline) override {
    if (!failure_.ok()) return failure_;
    auto gathered = gather(mine);
    failure_ = gathered.status();
    return gathered;
  }

  // The caller's function cannot tell of a death, so the ranks connect by a unique id.
  Result<std::unique_ptr<Control>> turn_over(const ControlOptions& options,
                                             const Settings& settings, Deadline deadline) override {
    if (size_ == 1)
      return make_thread_bootstraps(1).front()->turn_over(options, settings, deadline);
    std::string mine;  // rank 0's id, or why there is none
    if (rank_ == 0) {
      const auto made = make_unique_id(settings);
      mine = made.ok() ? std::string(made->bytes.begin(), made->bytes.end())
                       : std::string(made.status().message());
    }
    auto gathered = all_gather(mine, deadline);
    if (!gathered.ok()) return gathered.status();
    const std::string& text = gathered->front();
    UniqueId id;
    if (text.size() != id.bytes.size())
      return Status(StatusCode::kSystem, fmt::format("rank 0 cannot listen: {}", text));
    std::ranges::copy(text, id.bytes.begin());
    auto star = make_unique_id_bootstrap(id, size_, rank_, settings, deadline);
    if (!star.ok()) return star.status();
    return (*star)->turn_over(options, settings, deadline);
  }

 private:
  // First the lengths, then everything padded to the longest.
  Result<std::vector<std::string>> gather(std::string_view mine) {
    const size_t ranks = static_cast<size_t>(size_);
    const uint64_t length = mine.size();
    std::vector<uint64_t> lengths(ranks);
    UNISONO_RETURN_IF_ERROR(function_(&length, lengths.data(), sizeof(length)));
    const auto longest = std::ranges::max_element(lengths);
    if (*longest > kMaxGatherBytes)
      return invalid_argument(fmt::format("all_gather: expected at most {} bytes, rank {} gave {}",
                                          kMaxGatherBytes, longest - lengths.begin(), *longest));
    std::string padded(mine);
    padded.resize(*longest);
    std::string all(ranks * *longest, '\0');
    if (*longest != 0) UNISONO_RETURN_IF_ERROR(function_(padded.data(), all.data(), *longest));
    std::vector<std::string> gathered;
    for (size_t peer = 0; peer < ranks; ++peer)
      gathered.push_back(all.substr(peer * *longest, lengths[peer]));
    return gathered;
  }

  const int rank_, size_;
  AllGatherFunction function_;
  std::string token_;
  Status failure_;
};

}  // namespace

Result<std::unique_ptr<Bootstrap>> make_callback_bootstrap(int rank, int size,
                                                           AllGatherFunction all_gather) {
  if (size < 1 || rank < 0 || rank >= size)
    return invalid_argument(
        fmt::format("expected 0 <= rank < size, got rank {} of {}", rank, size));
  if (!all_gather) return invalid_argument("expected an all_gather function, got none");
  auto bootstrap = std::make_unique<CallbackBootstrap>(rank, size, std::move(all_gather));
  UNISONO_RETURN_IF_ERROR(bootstrap->agree_on_token());
  return std::unique_ptr<Bootstrap>(std::move(bootstrap));
}

}  // namespace unisono
