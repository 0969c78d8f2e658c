// SPDX-License-Identifier: Apache-2.0
// The rules of the house that a machine can keep: who may include whom, and how a file begins.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace unisono {
namespace {

namespace fs = std::filesystem;

// A folder includes only itself and folders with a smaller number. Equal numbers are strangers.
const std::map<std::string, int> kLayers = {
    {"src/base", 0},     {"src/topology", 1},  {"src/kernels", 1},      {"src/codecs", 2},
    {"src/transport", 2}, {"src/bootstrap", 2}, {"src/direct", 2},       {"src/schedule", 3},
    {"algorithms", 4},    {"transports", 4},    {"src/execute", 4},      {"src/select", 5},
    {"src/communicator", 6}, {"src/api", 7},    {"tools", 8},            {"bench", 8},
    {"tests", 9},
};

// Third-party headers stay where DESIGN puts them.
const struct {
  std::string header;
  std::vector<std::string> folders;
} kThirdParty[] = {
    {"hwloc", {"src/topology"}},
    {"ucp/", {"transports/ucx"}},
    {"ucs/", {"transports/ucx"}},
    {"hwy/", {"src/kernels", "src/codecs", "tests", "bench"}},
    {"asio", {"src/bootstrap"}},
    {"CLI/", {"tools"}},
    {"nlohmann/", {"tools", "tests"}},
    {"gtest/", {"tests"}},
    {"benchmark/", {"bench"}},
    {"mpi.h", {"bench/peers"}},
    {"gloo/", {"bench/peers"}},
};

struct SourceFile {
  std::string path;  // from the root
  std::vector<std::string> lines;
};

const std::vector<SourceFile>& sources() {
  static const std::vector<SourceFile> files = [] {
    std::vector<SourceFile> found;
    for (const char* top : {"include", "src", "algorithms", "transports", "tools", "bench", "tests", "examples"}) {
      const fs::path folder = fs::path(UNISONO_SOURCE_ROOT) / top;
      if (!fs::exists(folder)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        const std::string extension = entry.path().extension();
        if (extension != ".h" && extension != ".cc" && extension != ".hpp" && extension != ".c" && extension != ".cu")
          continue;
        SourceFile file{fs::relative(entry.path(), UNISONO_SOURCE_ROOT).generic_string(), {}};
        std::ifstream stream(entry.path());
        for (std::string line; std::getline(stream, line);) file.lines.push_back(line);
        found.push_back(std::move(file));
      }
    }
    return found;
  }();
  return files;
}

// The folder of kLayers that a path lies in, or empty.
std::string layer_folder(const std::string& path) {
  for (const auto& [folder, layer] : kLayers)
    if (path.starts_with(folder + "/")) return folder;
  return {};
}

// What `#include "x"` or `<x>` names; empty for other lines.
std::string included(const std::string& line, char open, char close) {
  if (!line.starts_with("#include ")) return {};
  const size_t begin = line.find(open), end = line.rfind(close);
  return begin == std::string::npos || end <= begin ? std::string() : line.substr(begin + 1, end - begin - 1);
}

TEST(House, SourcesAreFound) { EXPECT_GT(sources().size(), 40u); }

TEST(House, AFolderIncludesOnlyItselfAndFoldersBelow) {
  for (const SourceFile& file : sources()) {
    const std::string from = layer_folder(file.path);
    if (from.empty()) continue;
    for (const std::string& line : file.lines) {
      const std::string name = included(line, '"', '"');
      if (name.empty()) continue;
      const std::string to = fs::exists(fs::path(UNISONO_SOURCE_ROOT) / "src" / name)
                                 ? layer_folder("src/" + name)
                                 : layer_folder(name);
      if (to.empty() || to == from) continue;
      // Tests stand beside nothing: the checker in tools is theirs too.
      EXPECT_LT(kLayers.at(to), kLayers.at(from)) << file.path << ": " << line;
    }
  }
}

TEST(House, ThirdPartyHeadersStayInTheirRooms) {
  for (const SourceFile& file : sources()) {
    for (const std::string& line : file.lines) {
      const std::string name = included(line, '<', '>');
      for (const auto& [header, folders] : kThirdParty) {
        if (!name.starts_with(header)) continue;
        EXPECT_TRUE(std::ranges::any_of(folders, [&](const auto& f) { return file.path.starts_with(f + "/"); }))
            << file.path << ": " << line;
      }
      if (name.starts_with("fmt/")) {
        EXPECT_TRUE(file.path.ends_with(".cc")) << file.path << ": " << line;
      }
    }
  }
}

TEST(House, AFileBeginsWithItsLicenceAndPurpose) {
  for (const SourceFile& file : sources()) {
    ASSERT_GE(file.lines.size(), 2u) << file.path;
    EXPECT_EQ(file.lines[0], file.path.ends_with(".c") ? "/* SPDX-License-Identifier: Apache-2.0 */"
                                                       : "// SPDX-License-Identifier: Apache-2.0")
        << file.path;
    const bool has_purpose = file.lines[1].starts_with("// ") || file.lines[1].starts_with("/* ");
    // A .cc beside its header of the same name has its purpose there.
    const std::string header = file.path.substr(0, file.path.rfind('.')) + ".h";
    EXPECT_TRUE(has_purpose || fs::exists(fs::path(UNISONO_SOURCE_ROOT) / header)) << file.path;
  }
}

TEST(House, LinesHaveAtMost120Characters) {
  const auto begins_character = [](char c) { return (c & 0xC0) != 0x80; };  // UTF-8
  for (const SourceFile& file : sources())
    for (size_t i = 0; i < file.lines.size(); ++i)
      EXPECT_LE(std::ranges::count_if(file.lines[i], begins_character), 120) << file.path << ":" << i + 1;
}

TEST(House, EveryRegistryRowHasItsFile) {
  std::ifstream registry(fs::path(UNISONO_SOURCE_ROOT) / "algorithms/registry.cc");
  std::stringstream text;
  text << registry.rdbuf();
  for (const auto& entry : fs::directory_iterator(fs::path(UNISONO_SOURCE_ROOT) / "algorithms")) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() != ".cc" || name == "registry" || name == "patterns") continue;
    EXPECT_NE(text.str().find("row(" + name + ")"), std::string::npos) << name << " has no row";
  }
}

}  // namespace
}  // namespace unisono
