// SPDX-License-Identifier: Apache-2.0
// What the library leaves of itself in the process that uses it: nothing.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unisono/unisono.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/local_ranks.h"

namespace unisono::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

size_t entries(const char* folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

// Threads that have ended may stay listed for a moment.
size_t threads_after_joins() {
  for (int i = 0; i < 10'000 && entries("/proc/self/task") > 1; ++i) sched_yield();
  return entries("/proc/self/task");
}

size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<size_t>(std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
}

size_t resident_kilobytes() {
  malloc_trim(0);  // what is freed shall not count
  std::ifstream statm("/proc/self/statm");
  size_t total, resident;
  statm >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE)) / 1024;
}

std::vector<std::string> environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable)
    variables.emplace_back(*variable);
  return variables;
}

// Every signal's handler, flags and mask, as bytes; and the mask of this thread.
std::map<int, std::string> signal_state() {
  std::map<int, std::string> state;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action;
    std::memset(&action, 0, sizeof(action));
    if (sigaction(number, nullptr, &action) != 0) continue;
    state[number].assign(reinterpret_cast<const char*>(&action.sa_sigaction),
                         sizeof(action.sa_sigaction));
    state[number] += std::to_string(action.sa_flags);
    for (int masked = 1; masked < NSIG; ++masked)
      state[number] += sigismember(&action.sa_mask, masked) == 1 ? '1' : '0';
  }
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  for (int masked = 1; masked < NSIG; ++masked)
    state[0] += sigismember(&mask, masked) == 1 ? '1' : '0';
  return state;
}

void reduce_on(unisono_comm_t comm) {
  std::vector<int32_t> values(5000, 1);
  EXPECT_EQ(unisono_all_reduce(comm, values.data(), values.data(), values.size(), UNISONO_INT32,
                               UNISONO_SUM, nullptr),
            UNISONO_OK)
      << unisono_last_error();
  EXPECT_EQ(values, std::vector<int32_t>(5000, unisono_comm_size(comm)));
}

void with_unique_id(const char* setting) {
  unisono_unique_id_t id;
  ASSERT_EQ(unisono_get_unique_id(nullptr, &id), UNISONO_OK) << unisono_last_error();
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&id, rank, setting] {
      unisono_comm_t comm;
      ASSERT_EQ(unisono_comm_create(&id, 2, rank, TestOptions(setting), &comm), UNISONO_OK)
          << unisono_last_error();
      reduce_on(comm);
      EXPECT_EQ(unisono_comm_destroy(comm), UNISONO_OK);
    });
}

void a_whole_life() {
  on_ranks(2, [](unisono_comm_t comm, int) { reduce_on(comm); });
  on_ranks(
      2, [](unisono_comm_t comm, int) { reduce_on(comm); }, TestOptions("UNISONO_PROGRESS=thread"));
  with_unique_id(nullptr);
  unisono_comm_t comm;
  EXPECT_EQ(unisono_comm_create_local(1, TestOptions("UNISONO_TIMEOUT=never"), &comm),
            UNISONO_INVALID_ARGUMENT);
}

TEST(ApiHost, TheProcessIsLeftAsItWas) {
  std::thread([] {}).join();  // ThreadSanitizer starts a thread of its own beside the first one
  const auto signals = signal_state();
  const auto variables = environment();
  const size_t threads = threads_after_joins();
  const int out = dup(STDOUT_FILENO);
  const int caught = memfd_create("stdout", MFD_CLOEXEC);
  std::fflush(stdout);
  dup2(caught, STDOUT_FILENO);
  a_whole_life();
  std::fflush(stdout);
  dup2(out, STDOUT_FILENO);
  EXPECT_EQ(lseek(caught, 0, SEEK_END), 0) << "something was written to standard output";
  close(caught);
  close(out);
  EXPECT_EQ(signal_state(), signals);
  EXPECT_EQ(environment(), variables);
  EXPECT_EQ(threads_after_joins(), threads);
}

// Its ranks' threads come later, and would all inherit what the caller is bound to.
TEST(ApiHost, CreateLocalBindsNobody) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  on_ranks(2, [](unisono_comm_t comm, int) { reduce_on(comm); }, TestOptions("UNISONO_BIND=core"));
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

void cycles_leave_nothing_behind(const char* transport, int cycles) {
  SCOPED_TRACE(transport);
  const auto cycle = [&] {
    on_ranks(
        2, [](unisono_comm_t comm, int) { reduce_on(comm); }, TestOptions(transport));
  };
  for (int i = 0; i < 10; ++i) cycle(), a_whole_life();
  const size_t descriptors = entries("/proc/self/fd"), threads = threads_after_joins(),
               maps = mappings(), resident = resident_kilobytes();
  for (int i = 0; i < cycles; ++i) cycle();
  for (int i = 0; i < cycles / 20; ++i) a_whole_life();
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
  EXPECT_EQ(threads_after_joins(), threads);
  // The allocator keeps arenas and stacks of its own; a leak of a page a cycle is far above this.
  EXPECT_LE(mappings(), maps + 20);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which keep what is freed
  EXPECT_LE(resident_kilobytes(), resident + 1024);
#else
  EXPECT_GT(resident, 0u);
#endif
}

TEST(ApiHost, CyclesLeaveNothingBehind) {
  cycles_leave_nothing_behind("UNISONO_TRANSPORT=host_memory", 1000);
  if (UNISONO_HAS_UCX) cycles_leave_nothing_behind("UNISONO_TRANSPORT=ucx", 20);
}

// Runs `body` in a forked child; whether it said true.
bool in_child(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status == 0;
}

TEST(ApiHost, AChildThatUsesItsParentsCommunicatorIsTold) {
  for (const char* progress : {"UNISONO_PROGRESS=caller", "UNISONO_PROGRESS=thread"}) {
    std::vector<unisono_comm_t> comms(2);
    ASSERT_EQ(unisono_comm_create_local(2, TestOptions(progress), comms.data()), UNISONO_OK);
    EXPECT_TRUE(in_child([&] {
      float value = 1;
      unisono_request_t request;
      const bool told =
          unisono_all_reduce(comms[0], &value, &value, 1, UNISONO_FLOAT32, UNISONO_SUM, nullptr) ==
              UNISONO_INVALID_ARGUMENT &&
          std::string(unisono_last_error()).find("before fork()") != std::string::npos &&
          unisono_all_reduce_start(comms[0], &value, &value, 1, UNISONO_FLOAT32, UNISONO_SUM,
                                   nullptr, &request) == UNISONO_INVALID_ARGUMENT &&
          unisono_group_begin(comms[0]) == UNISONO_INVALID_ARGUMENT &&
          unisono_comm_abort(comms[0]) == UNISONO_INVALID_ARGUMENT;
      const bool destroyed = unisono_comm_destroy(comms[0]) == UNISONO_OK &&
                             unisono_comm_destroy(comms[1]) == UNISONO_OK;
      unisono_comm_t own;
      const bool made = unisono_comm_create_local(1, nullptr, &own) == UNISONO_OK &&
                        unisono_all_reduce(own, &value, &value, 1, UNISONO_FLOAT32, UNISONO_SUM,
                                           nullptr) == UNISONO_OK &&
                        unisono_comm_destroy(own) == UNISONO_OK;
      return told && destroyed && made;
    }));
    // And the parent has noticed nothing.
    {
      std::vector<std::jthread> threads;
      for (const unisono_comm_t comm : comms) threads.emplace_back([comm] { reduce_on(comm); });
    }
    for (const unisono_comm_t comm : comms) EXPECT_EQ(unisono_comm_destroy(comm), UNISONO_OK);
  }
}

}  // namespace
}  // namespace unisono::testing
