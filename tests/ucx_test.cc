// SPDX-License-Identifier: Apache-2.0
// What is particular to the transport over UCX: the host process, limits, tags. What every
// transport must do is in transport_test.cc, and what strangers, interfaces and ports do to it in
// ucx_network_test.cc.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/ucx_pair.h"
#include "transports/ucx/tag.h"

namespace unisono::testing {
namespace {

size_t entries_of(const char* folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

struct Handlers {
  std::map<int, void*> by_signal;
  Handlers() {
    for (int signal = 1; signal < NSIG; ++signal) {
      struct sigaction action = {};
      if (sigaction(signal, nullptr, &action) == 0)
        by_signal[signal] = reinterpret_cast<void*>(action.sa_handler);
    }
  }
};

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

TEST(UcxHost, IsLeftAlone) {
  in_fresh_process([] {
    std::thread([] {}).join();  // a sanitizer starts a thread of its own at the first one
    const Handlers handlers;
    char** const environ_before = environ;
    const std::vector<std::string> environment_before = environment();
    const size_t threads = entries_of("/proc/self/task");
    {
      Pair pair;
      EXPECT_EQ(Handlers().by_signal, handlers.by_signal);
      EXPECT_EQ(environ, environ_before);
      EXPECT_EQ(environment(), environment_before);
      EXPECT_LE(entries_of("/proc/self/task"), threads + 1);  // UCX's own, while it is used
    }
    EXPECT_EQ(Handlers().by_signal, handlers.by_signal);
    EXPECT_EQ(entries_of("/proc/self/task"), threads);
  });
}

// The other way round: the comparison above sees what UCX does by itself, which a user may ask for.
TEST(UcxHost, VariablesOfTheUserWin) {
  in_fresh_process([] {
    const Handlers handlers;
    setenv("UCX_HANDLE_ERRORS", "bt", 1);
    setenv("UCX_ERROR_SIGNALS", "SIGFPE", 1);
    make_ucx(0, 1);
    const Handlers now;
    EXPECT_NE(now.by_signal.at(SIGFPE), handlers.by_signal.at(SIGFPE));
    EXPECT_EQ(now.by_signal.at(SIGSEGV), handlers.by_signal.at(SIGSEGV));
  });
}

void expect_refused(const Settings& settings, StatusCode code, const std::string& part) {
  const Status status = create_ucx(0, 2, settings).status();
  EXPECT_EQ(status.code(), code);
  EXPECT_NE(status.message().find(part), std::string_view::npos) << status.message();
}

TEST(UcxSettings, BadOnesAreOneClearLine) {
  expect_refused(
      with("UNISONO_INTERFACE", "nope0"), StatusCode::kInvalidArgument,
      "UNISONO_INTERFACE=nope0: no such interface with an address that ucx can use (not [::1], not "
      "link-local); there are: lo 127.0.0.1");
  expect_refused(with("UNISONO_INTERFACE", "::1/128"), StatusCode::kInvalidArgument,
                 "UNISONO_INTERFACE=::1/128: no such interface with an address that ucx can use");
}

TEST(UcxLimits, AreStated) {
  EXPECT_EQ(create_ucx(0, 4097).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(create_ucx(0, 4097).status().message(), "transport ucx: 4097 ranks, at most 4096 fit");
  EXPECT_EQ(create_ucx(0, 2, {}, "short").status().code(), StatusCode::kInvalidArgument);
  Pair pair;
  Ended post;
  pair.ranks[0]->channel(1).post_send({1, TagLayout(2).max_message() + 1, 0, 0}, nullptr, 0, post);
  EXPECT_EQ(post.times, 1);
  EXPECT_EQ(post.status.code(), StatusCode::kUnsupported) << post.status.message();
}

TEST(UcxTags, TellKeysApart) {
  for (const int size : {1, 2, 3, 64, 65, 128, 129, 4096}) {
    const TagLayout layout(size);
    EXPECT_GE(layout.max_message(), 2u * static_cast<uint32_t>(size - 1)) << size;
    EXPECT_EQ(layout.signature_mask(), size <= 128 ? 0xffffffffu : layout.signature_mask());
    EXPECT_GE(layout.signature_mask(), (1u << 22) - 1);
    std::set<uint64_t> tags;
    size_t keys = 0;
    for (const int sender : {0, size / 2, size - 1})
      for (const uint32_t sequence : {0u, 1u, 255u})
        for (const uint32_t message : {0u, 1u, layout.max_message()})
          for (const uint32_t slice : {0u, 1u, 255u}) {
            const Key key{sequence, message, slice, 0xdeadbeef};
            const uint64_t tag = layout.tag(sender, key);
            tags.insert(tag & layout.match_mask());
            ++keys;
            EXPECT_EQ(layout.signature_of(tag), 0xdeadbeef & layout.signature_mask());
          }
    const std::set<int> senders{0, size / 2, size - 1};
    EXPECT_EQ(tags.size(), keys / 3 * senders.size()) << size;
  }
}

}  // namespace
}  // namespace unisono::testing
