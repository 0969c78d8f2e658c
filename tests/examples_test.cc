// SPDX-License-Identifier: Apache-2.0
// Every example runs, under our launcher or alone, and says what it should.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
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
  std::vector<std::string> arguments = {};
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
    {"06_train_digits", 0, {"1 ranks, 1 epochs of 44 steps; means of 4 seeds"}, {"1"}},
    {"07_mapped_buffers", 0, {"rank 0 of 1, step 3: 3\n"}},
    {"07_mapped_buffers", 3, {"rank 0 of 3, step 1: 6\n", "rank 2 of 3, step 3: 18\n"}},
};

struct Outcome {
  int status;
  std::string text;  // standard output and error
};

// In a process of its own: the launcher handles signals. A file takes any amount without a reader.
Outcome run(const Example& example) {
  const std::string program = std::string(UNISONO_EXAMPLES) + "/" + example.name;
  const int file = memfd_create("output", 0);
  fcntl(file, F_SETFL, O_APPEND);  // ranks write at once, and share the position otherwise
  const pid_t child = fork();
  if (child == 0) {
    dup2(file, STDOUT_FILENO), dup2(file, STDERR_FILENO);
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR"}) unsetenv(name);
    setenv("UNISONO_TIMEOUT", "60s", 1);
    if (example.ranks > 0) {
      LaunchOptions options;
      options.ranks = example.ranks;
      options.argv = {program};
      options.argv.insert(options.argv.end(), example.arguments.begin(), example.arguments.end());
      options.label = false;
      options.timeout = std::chrono::seconds(60);
      _exit(launch(options));
    }
    std::vector<char*> words{const_cast<char*>(program.c_str())};
    for (const std::string& word : example.arguments)
      words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execv(program.c_str(), words.data());
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

// Means of 4 seeds, after 6 epochs.
TEST(Examples, TrainingNeedsFeedbackWithOneBit) {
  struct Row {
    double accuracy, wire_bytes;
  };
  std::map<std::string, Row> rows;  // by codec and feedback
  const Outcome outcome = run({"06_train_digits", 3, {}, {"6"}});
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  std::istringstream lines(outcome.text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string codec, feedback;
    Row row;
    if (words >> codec >> feedback >> row.accuracy >> row.wire_bytes)
      rows[codec + " " + feedback] = row;
  }
  ASSERT_EQ(rows.size(), 5u) << outcome.text;
  const Row plain = rows["none no"], fed = rows["onebit yes"], unfed = rows["onebit no"];
  EXPECT_GT(plain.accuracy, 88) << outcome.text;
  for (const char* codec : {"fp16 no", "int8 no", "onebit yes"})
    EXPECT_NEAR(rows[codec].accuracy, plain.accuracy, 1) << outcome.text;
  EXPECT_LT(unfed.accuracy, fed.accuracy - 10) << outcome.text;
  EXPECT_LE(25 * fed.wire_bytes, plain.wire_bytes) << outcome.text;
  EXPECT_EQ(fed.wire_bytes, unfed.wire_bytes) << outcome.text;
}

TEST(Examples, TrainingWithoutDataSaysWhereItComesFrom) {
  const Outcome outcome = run({"06_train_digits", 2, {}, {"1", "/nonexistent.csv.gz"}});
  EXPECT_EQ(WEXITSTATUS(outcome.status), 2) << outcome.text;
  EXPECT_THAT(outcome.text,
              HasSubstr("06_train_digits: 2 of 2 ranks find no digits in "
                        "/nonexistent.csv.gz: expected Debian's package python3-sklearn"));
  const Outcome epochs = run({"06_train_digits", 0, {}, {"none"}});
  EXPECT_EQ(WEXITSTATUS(epochs.status), 2);
  EXPECT_EQ(epochs.text, "06_train_digits: none epochs: expected a number from 1\n");
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
    EXPECT_THAT(listed, HasSubstr(fmt::format("`{}`", entry.path().filename().string())));
    std::ifstream source(entry.path());
    for (std::string line; std::getline(source, line);)
      EXPECT_FALSE(line.starts_with("#include \"")) << entry.path() << ": " << line;
  }
  EXPECT_EQ(found, tested);
}

}  // namespace
}  // namespace unisono
