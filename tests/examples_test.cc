// SPDX-License-Identifier: Apache-2.0
// Every example runs, under our launcher or alone, and says what it should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tools/launch.h"

namespace unisono {
namespace {

using ::testing::HasSubstr;

struct Example {
  std::string name;
  int ranks;                       // of the launcher; 0: started alone
  std::vector<std::string> lines;  // parts that must each be in the output
};

const Example kExamples[] = {
    {"01_all_reduce", 0, {"rank 0 of 1: 0 1 2 3\n"}},
    {"01_all_reduce",
     3,
     {"rank 0 of 3: 3 6 9 12\n", "rank 1 of 3: 3 6 9 12\n", "rank 2 of 3: 3 6 9 12\n"}},
    {"02_all_reduce", 0, {"rank 0 of 1: sum 0, mean loss 1, by "}},
    {"02_all_reduce",
     3,
     {"rank 0 of 3: sum 3, mean loss 2, by ", "rank 2 of 3: sum 3, mean loss 2, by "}},
    {"03_threads", 0, {"rank 0 of 4: 10\n", "rank 3 of 4: 10\n"}},
    {"04_unique_id", 0, {"rank 0 of 3: 6\n", "rank 1 of 3: 6\n", "rank 2 of 3: 6\n"}},
    {"05_group", 0, {"rank 0 of 1: mean gradient 1, 32 samples\n"}},
    {"05_group",
     3,
     {"rank 0 of 3: mean gradient 2, 96 samples\n", "rank 2 of 3: mean gradient 2, 96 samples\n"}},
};

struct Outcome {
  int status;
  std::string text;  // standard output and error
};

// In a process of its own: the launcher handles signals. A file takes any amount without a reader.
Outcome run(const Example& example) {
  const std::string program = std::string(UNISONO_EXAMPLES) + "/" + example.name;
  const int file = memfd_create("output", 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(file, STDOUT_FILENO), dup2(file, STDERR_FILENO);
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR"}) unsetenv(name);
    setenv("UNISONO_TIMEOUT", "60s", 1);
    if (example.ranks > 0) {
      LaunchOptions options;
      options.ranks = example.ranks;
      options.argv = {program};
      options.label = false;
      options.timeout = std::chrono::seconds(60);
      _exit(launch(options));
    }
    execl(program.c_str(), program.c_str(), nullptr);
    _exit(127);
  }
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::ifstream written("/proc/self/fd/" + std::to_string(file));
  std::ostringstream text;
  text << written.rdbuf();
  close(file);
  return {status, text.str()};
}

TEST(Examples, RunAndSayWhatTheyShould) {
  for (const Example& example : kExamples) {
    const Outcome outcome = run(example);
    EXPECT_EQ(outcome.status, 0) << example.name << " with " << example.ranks << ":\n"
                                 << outcome.text;
    for (const std::string& line : example.lines)
      EXPECT_THAT(outcome.text, HasSubstr(line)) << example.name << " with " << example.ranks;
  }
}

TEST(Examples, AllAreTestedListedAndSelfContained) {
  const std::filesystem::path folder = std::filesystem::path(UNISONO_SOURCE_ROOT) / "examples";
  std::set<std::string> tested, found;
  for (const Example& example : kExamples) tested.insert(example.name);
  std::ifstream readme(folder / "README.md");
  const std::string listed(std::istreambuf_iterator<char>(readme), {});
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if (extension != ".c" && extension != ".cc") continue;
    found.insert(entry.path().stem());
    EXPECT_THAT(listed, HasSubstr("`" + entry.path().filename().string() + "`"));
    std::ifstream source(entry.path());
    for (std::string line; std::getline(source, line);)
      EXPECT_FALSE(line.starts_with("#include \"")) << entry.path() << ": " << line;
  }
  EXPECT_EQ(found, tested);
}

}  // namespace
}  // namespace unisono
