// SPDX-License-Identifier: Apache-2.0
// The unisono command as a person meets it: what it prints, where, and its exit status.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>

#include "algorithms/registry.h"
#include "base/text.h"
#include "execute/executor.h"

namespace unisono {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Ended {
  int status;
  std::string out, err;
};

std::string contents_of(int file) {
  std::string text(static_cast<size_t>(lseek(file, 0, SEEK_END)), '\0');
  EXPECT_EQ(pread(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  close(file);
  return text;
}

// Output to `out` instead of a file where it is given.
Ended unisono(const std::vector<std::string>& arguments, std::vector<std::string> environment = {},
              int out = -1) {
  const int out_file = memfd_create("out", MFD_CLOEXEC),
            err_file = memfd_create("err", MFD_CLOEXEC);
  // Ranks write at once, and share the position otherwise.
  for (const int file : {out_file, err_file}) fcntl(file, F_SETFL, O_APPEND);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out >= 0 ? out : out_file, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err_file, STDERR_FILENO);
  std::vector<std::string> words{UNISONO_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (const char* name : {"PATH", "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"})
    if (const char* value = getenv(name)) environment.push_back(std::string(name) + "=" + value);
  environment.push_back("UNISONO_TIMEOUT=60s");
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& entry : environment) envp.push_back(entry.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  pid_t child = -1;
  EXPECT_EQ(posix_spawn(&child, UNISONO_BINARY, &actions, nullptr, argv.data(), envp.data()), 0);
  posix_spawn_file_actions_destroy(&actions);
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  EXPECT_TRUE(WIFEXITED(status));
  return {WEXITSTATUS(status), contents_of(out_file), contents_of(err_file)};
}

TEST(Cli, BadInputIsOneLineAndTwo) {
  const std::string size = "expected a size like 8 or 64K, a list 8,64K,1M, or FIRST:LAST:xFACTOR";
  const struct {
    std::vector<std::string> arguments;
    std::string line;
  } cases[] = {
      {{}, "unisono: expected a command: compare, bench, run, verify, explain, topology, settings"},
      {{"bnch"}, "unisono: unknown command 'bnch': did you mean bench?"},
      {{"bench", "--algoritm", "x"},
       "unisono bench: unknown flag --algoritm: did you mean --algorithm?"},
      {{"bench", "extra"}, "unisono bench: unexpected word 'extra': see --help"},
      {{"bench", "--bytes"}, "unisono bench: --bytes: expected a value"},
      {{"bench", "--bytes", ""}, "unisono bench: --bytes: expected a value"},
      {{"bench", "--json="}, "unisono bench: --json: expected a value"},
      {{"bench", "-n", ""}, "unisono bench: --ranks: expected a value"},
      {{"run", "--timeout", "", "true"}, "unisono run: --timeout: expected a value"},
      {{"bench", "--bytes", "8", "--bytes", "9"}, "unisono bench: --bytes: expected only once"},
      {{"bench", "--in-place=3"}, "unisono bench: --in-place: expected no value"},
      {{"bench", "--bytes", "8:4:x2"},
       "unisono bench: --bytes 8:4:x2: expected FIRST:LAST:xFACTOR with FIRST <= LAST"},
      {{"bench", "--bytes", "lots"}, "unisono bench: --bytes lots: " + size},
      {{"bench", "--bytes", "6"},
       "unisono bench: --bytes 6: expected a multiple of 4, the bytes of one f32"},
      {{"bench", "-b", "8", "-f", "2"},
       "unisono bench: -b, -e, -f: expected -b FIRST, -b FIRST -e LAST, or both and -f FACTOR"},
      {{"bench", "--algorithm", "rign"},
       "unisono bench: --algorithm: unknown algorithm rign: did you mean ring?"},
      {{"bench", "-n", "0"}, "unisono bench: --ranks 0: expected a number from 1 to 1024"},
      {{"bench", "--codec", "zip"}, "unisono bench: --codec zip: expected none|fp16|bf16|int8|onebit, a list, or all"},
      {{"bench", "-o", "sub"}, "unisono bench: --op sub: expected sum|prod|min|max|avg or all"},
      {{"bench", "-c", "2"}, "unisono bench: --check 2: expected 0 or 1"},
      {{"bench", "--iterations", "0"},
       "unisono bench: --iterations 0: expected a number from 1 to 100000"},
      {{"bench", "--fresh", "--hot"},
       "unisono bench: --fresh and --hot exclude each other: expected one of them"},
      {{"bench", "--json", "/nonexistent/x"},
       "unisono bench: cannot write /nonexistent/x: No such file or directory"},
      {{"verify", "--ranks", "0:3"},
       "unisono verify: --ranks 0:3: expected a rank count from 1 to 65536, a list 2,3,8, or "
       "FIRST:LAST"},
      {{"verify", "--algorithm", "auto"},
       "unisono verify: --algorithm auto: expected algorithms, or all"},
      {{"explain", "-n", "2", "--rank", "2"},
       "unisono explain: --rank 2: expected a number from 0 to 1"},
      {{"explain", "--algorithm", "ring", "--max-error", "-1"},
       "unisono explain: --max-error -1: expected a number from 0, e.g. 0.01"},
      {{"topology", "-n", "0"}, "unisono topology: --ranks 0: expected a number from 1 to 1024"},
      {{"topology", "--ranks-as", "x"}, "unisono topology: --ranks-as x: expected processes or threads"},
      {{"run"}, "unisono run: expected a program: unisono run -n 4 -- PROGRAM …"},
      {{"run", "--timeout", "soon", "true"},
       "unisono run: --timeout soon: expected a duration like 30s, 5m or 250ms"},
  };
  for (const auto& c : cases) {
    const Ended ended = unisono(c.arguments);
    EXPECT_EQ(ended.err, c.line + "\n");
    EXPECT_EQ(ended.status, 2) << c.line;
    EXPECT_EQ(ended.out, "") << c.line;
  }
}

TEST(Cli, ABadEnvironmentIsOneLineAndTwo) {
  for (const char* command : {"settings", "bench", "compare", "explain", "topology"}) {
    const Ended ended = unisono({command}, {"UNISONO_TIMOUT=5s"});
    EXPECT_EQ(ended.err, std::string("unisono ") + command +
                             ": unknown setting UNISONO_TIMOUT: did you mean UNISONO_TIMEOUT?\n");
    EXPECT_EQ(ended.status, 2);
  }
}

TEST(Cli, SettingsOfAnotherPathAreCheckedToo) {
  for (const char* command : {"settings", "bench", "compare", "explain", "topology"})
    for (const char* entry : {"UNISONO_PORT_RANGE=9:8", "UNISONO_JOB_TOKEN=x", "UNISONO_INTERFACE=10.0.0.0/x",
                              "UNISONO_RULES=*: rng", "UNISONO_ALGORITHM=rng", "UNISONO_TRANSPORT=none"}) {
      const Ended ended = unisono({command}, {entry});
      EXPECT_EQ(ended.status, 2) << command << " " << entry;
      const std::string_view name = split(entry, '=').front();
      EXPECT_THAT(ended.err, ::testing::StartsWith(fmt::format("unisono {}: {}", command, name)));
    }
}

TEST(Cli, EveryHelpHasAnExample) {
  for (const char* command : {"compare", "bench", "run", "verify", "explain", "topology", "settings"}) {
    const Ended ended = unisono({command, "--help"});
    EXPECT_EQ(ended.status, 0);
    EXPECT_THAT(ended.out, HasSubstr("Example:\n  "));
    EXPECT_EQ(ended.err, "");
  }
}

TEST(Cli, JsonHasExactlyTheseKeys) {
  const Ended ended = unisono({"bench", "-n", "2", "--bytes", "8,1K", "--algorithm", "ring",
                               "--iterations", "3", "--json", "-"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  const auto lines = split(trim(ended.out), '\n');
  ASSERT_EQ(lines.size(), 2u);
  const auto row = nlohmann::ordered_json::parse(lines[1]);
  std::vector<std::string> keys;
  for (const auto& [key, value] : row.items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("collective", "algorithm", "codec", "form", "dtype", "op", "ranks", "hosts",
                                "transport", "bytes", "count", "in_place", "time_us", "algbw_GBps",
                                "busbw_GBps", "wire_bytes", "wrong", "max_error", "relative_error",
                                "share_of_bound", "encode_us", "decode_us", "break_even_Gbps",
                                "bit_identical"));
  EXPECT_EQ(row["bytes"], 1024);
  EXPECT_EQ(row["count"], 256);
  EXPECT_EQ(row["ranks"], 2);
  EXPECT_EQ(row["wrong"], 0);
  EXPECT_EQ(row["bit_identical"], true);
  EXPECT_GT(row["time_us"]["median"], 0);
  EXPECT_GE(row["time_us"]["p99"], row["time_us"]["median"]);
}

TEST(Cli, BenchTellsWhetherMappedBuffersServed) {
  for (const bool mapped : {false, true}) {
    std::vector<std::string> words = {"bench", "-n", "2", "--bytes", "64K", "--iterations", "3", "--json", "-"};
    if (mapped) words.emplace_back("--mapped");
    const Ended ended = unisono(words);
    ASSERT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(nlohmann::ordered_json::parse(ended.out)["form"], mapped ? "mapped" : "slot");
  }
}

TEST(Cli, CompareIsRightForEveryAlgorithm) {
  for (const char* ranks : {"2", "3"}) {
    const Ended ended = unisono(
        {"compare", "-n", ranks, "--bytes", "8,1K,40K", "--iterations", "3", "--warmup", "1"});
    ASSERT_EQ(ended.status, 0) << ended.err;
    for (const Algorithm* algorithm : algorithms())
      EXPECT_THAT(ended.out, HasSubstr(std::string(algorithm->name)));
    EXPECT_THAT(ended.out, HasSubstr("sum 0\n"));
    EXPECT_EQ(ended.err, "");
  }
}

TEST(Cli, CompareIsRightForEveryCodec) {
  const Ended ended = unisono({"compare", "-n", "3", "--bytes", "0,4,1K,40K", "--codec", "all",
                               "--iterations", "3", "--warmup", "1"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  for (const char* codec : {" none ", " fp16 ", " bf16 ", " int8 ", " onebit "})
    EXPECT_THAT(ended.out, HasSubstr(codec));
  EXPECT_THAT(ended.out, HasSubstr("sum 0\n"));
  EXPECT_EQ(ended.err, "");
}

TEST(Cli, BenchTellsErrorAndCostOfACodec) {
  const Ended ended = unisono({"bench", "-n", "2", "--bytes", "40K", "--algorithm", "ring",
                               "--codec", "onebit", "--iterations", "3", "--json", "-"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const auto row = nlohmann::ordered_json::parse(ended.out);
  EXPECT_EQ(row["codec"], "onebit");
  EXPECT_EQ(row["wire_bytes"], 2 * (40960 / 4 / 2 / 8 + 10 * 8));
  EXPECT_GT(row["relative_error"], 0.1);
  EXPECT_LT(row["relative_error"], 1);
  EXPECT_GT(row["share_of_bound"], 0.1);
  EXPECT_LE(row["share_of_bound"], 1);
  EXPECT_GT(row["encode_us"], 0);
  EXPECT_GT(row["break_even_Gbps"], 0);
  EXPECT_EQ(unisono({"bench", "--codec", "onebit"}).err,
            "unisono bench: --codec onebit: expected an algorithm by name too, e.g. --algorithm ring (auto picks its "
            "codec itself)\n");
  EXPECT_THAT(unisono({"bench", "-n", "2", "--codec", "onebit", "--algorithm", "ring", "-o", "min"}).err,
              HasSubstr("codec onebit serves sum, avg, not min"));
}

TEST(Cli, AClosedPipeIsOneLineAndOne) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const Ended ended =
      unisono({"bench", "-n", "2", "--bytes", "8", "--iterations", "3"}, {}, ends[1]);
  close(ends[1]);
  EXPECT_EQ(ended.err, "unisono bench: standard output: Broken pipe\n");
  EXPECT_EQ(ended.status, 1);
}

TEST(Cli, VerifyProvesEveryAlgorithm) {
  const Ended ended = unisono({"verify", "--ranks", "1:9"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(split(ended.out, '\n').size(), algorithms().size() + 3);
  EXPECT_THAT(ended.out, HasSubstr("9 of 9"));
}

TEST(Cli, ExplainGivesThePickAndItsReason) {
  const Ended ended = unisono({"explain", "--bytes", "1M", "-n", "4"},
                              {"UNISONO_RULES=bytes>64K: ring depth=8; *: one_shot"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("runs    ring depth=8\n"));
  EXPECT_THAT(ended.out, HasSubstr("of UNISONO_RULES\n"));
  EXPECT_THAT(unisono({"explain", "-n", "3", "--algorithm", "ring", "--rank", "2", "--steps"}).out,
              HasSubstr("all_reduce, rank 2 of 3: 3 chunks, 8 steps\n"));
}

TEST(Cli, ExplainTellsWhatACodecAdds) {
  const std::vector<std::string> words = {"explain", "-n", "4", "--steps", "--algorithm",
                                          "sharded_ps codec=fp16"};
  const Ended ended = unisono(words);
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("codec   a contribution is encoded up to 2 times, in sums of up to "
                                   "4; added error up to 0.00342 times the largest contribution\n"));
  EXPECT_THAT(ended.out, HasSubstr("= encode(input)"));
  const std::vector<std::string> rules = {"UNISONO_RULES=*: sharded_ps codec=int8; *: ring"};
  EXPECT_THAT(unisono({"explain"}, rules).out, HasSubstr("runs    ring\n"));
  EXPECT_THAT(unisono({"explain", "--max-error", "0.01"}, rules).out,
              HasSubstr("runs    sharded_ps codec=int8\n"));
}

TEST(Cli, ExplainKnowsHosts) {
  const std::vector<std::string> words = {
      "explain", "-n",      "4",           "--hosts",
      "2",       "--steps", "--algorithm", "sharded_ps codec=fp16 links=between_hosts"};
  const Ended ended = unisono(words);
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("by 4 ranks on 2 hosts\n"));
  EXPECT_THAT(ended.out, HasSubstr("runs    sharded_ps codec=fp16 links=between_hosts\n"));
  EXPECT_THAT(ended.out, HasSubstr("send        chunk 1     input to 1 #0\n"));
  EXPECT_THAT(ended.out, HasSubstr("send        chunk 2     encoded[0] to 2 #0"));
  EXPECT_THAT(unisono({"explain", "--algorithm", "ring codec=fp16 links=between_hosts"}).out,
              HasSubstr("runs    ring\n"));
  EXPECT_THAT(unisono({"explain", "-n", "2", "--hosts", "3"}).err,
              HasSubstr("--hosts 3: expected a number from 1 to 2"));
}

// A machine that is not ours, but for what ranks may use of it.
TEST(Cli, TopologyDescribesHostsAndRanks) {
  const std::vector<std::string> environment = {
      "HWLOC_SYNTHETIC=pack:4 [numa(memory=1GiB)] l2:2(size=2097152) core:1 pu:1024"};
  const Ended ended = unisono({"topology", "-n", "3", "--json", "-"}, environment);
  ASSERT_EQ(ended.status, 0) << ended.err;
  const auto topology = nlohmann::ordered_json::parse(ended.out);
  ASSERT_EQ(topology["hosts"].size(), 1u);
  const auto& host = topology["hosts"][0];
  EXPECT_EQ(host["packages"], 4);
  EXPECT_EQ(host["numa_nodes"], 4);
  EXPECT_EQ(host["cores"].size(), 8u);
  EXPECT_EQ(host["hardware_threads"], 8192);
  EXPECT_EQ(host["caches"].dump(), R"([{"level":2,"bytes":2097152,"count":8}])");
  EXPECT_EQ(host["ranks"], 3);
  const WaitPolicy policy = wait_policy(3, host["usable_cpus"]);
  EXPECT_EQ(host["waiting"]["yields"], policy.yields);
  ASSERT_EQ(topology["ranks"].size(), 3u);
  std::set<int> pids;
  for (int i = 0; i < 3; ++i) {
    const auto& rank = topology["ranks"][static_cast<size_t>(i)];
    EXPECT_EQ(rank["rank"], i);
    EXPECT_EQ(rank["transport"], "host_memory");
    EXPECT_FALSE(rank["cpus"].empty());
    EXPECT_EQ(rank["cores"].dump(), "[0]");
    EXPECT_EQ(rank["numa_nodes"].dump(), "[0]");
    pids.insert(rank["pid"].get<int>());
  }
  EXPECT_EQ(pids.size(), 3u);
  const Ended table = unisono({"topology", "-n", "3"}, environment);
  EXPECT_EQ(split(table.out, '\n').size(), 2u + 1 + 4 + 1 + 2 + 1) << table.out;
  EXPECT_THAT(table.out, HasSubstr("8 × 2Mi"));
  EXPECT_THAT(table.out, HasSubstr(fmt::format("{} spins ({} in schedules)", policy.direct_spins, policy.spins)));
}

TEST(Cli, TopologyOfAWorldOfOneAndOfThreads) {
  const auto one = nlohmann::ordered_json::parse(unisono({"topology", "-n", "1", "--json", "-"}).out);
  EXPECT_EQ(one["ranks"].size(), 1u);
  EXPECT_EQ(one["ranks"][0]["transport"], "none");
  const auto threads = nlohmann::ordered_json::parse(
      unisono({"topology", "-n", "2", "--ranks-as", "threads", "--json", "-"}).out);
  ASSERT_EQ(threads["ranks"].size(), 2u);
  EXPECT_EQ(threads["ranks"][0]["pid"], threads["ranks"][1]["pid"]);
}

TEST(Cli, RunPassesWordsAndStatusOn) {
  EXPECT_EQ(unisono({"run", "-n", "2", "--", "sh", "-c", "exit $((3 * RANK))"}).status, 3);
  EXPECT_EQ(unisono({"run", "-n", "1", "sh", "-c", "echo $WORLD_SIZE"}).out, "[0] 1\n");
}

TEST(Cli, SettingsShowValueAndOrigin) {
  const Ended ended = unisono({"settings"}, {"UNISONO_DEPTH=7"});
  EXPECT_EQ(ended.status, 0);
  for (const auto line : split(trim(ended.out), '\n')) {
    const bool is_set = line.starts_with("UNISONO_DEPTH ");
    const bool from_environment = is_set || line.starts_with("UNISONO_TIMEOUT ");
    EXPECT_EQ(line.find(" environment ") != std::string::npos, from_environment) << line;
    EXPECT_EQ(line.find(" 7 ") != std::string::npos, is_set) << line;
  }
}

}  // namespace
}  // namespace unisono
