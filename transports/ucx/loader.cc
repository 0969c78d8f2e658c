// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/loader.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "transports/ucx/module.h"
#include "transports/ucx_build_info.h"

namespace unisono {
namespace {

// UCX's log goes to standard output by default, which belongs to the host.
constexpr std::array kQuietUcx = {
    "UCX_HANDLE_ERRORS=none", "UCX_ERROR_SIGNALS=",
    "UCX_DEBUG_SIGNO=0",      "UCX_VFS_ENABLE=n",
    "UCX_MEM_EVENTS=n",       "UCX_MEM_MMAP_HOOK_MODE=none",
    "UCX_MEM_MALLOC_HOOKS=n", "UCX_MEM_CUDA_HOOK_MODE=none",
    "UCX_MEM_MALLOC_RELOC=n", "UCX_LOG_FILE=stderr",
    "UCX_LOG_LEVEL=fatal",
};

bool is_set(std::string_view assignment) {
  const std::string name(assignment.substr(0, assignment.find('=')));
  return ::getenv(name.c_str()) != nullptr;
}

// Swaps the environment for one with `kQuietUcx` in it, and back. One in a process.
class QuietEnvironment {
 public:
  QuietEnvironment() : original_(environ) {
    // Never freed: a reader in another thread may still walk it.
    static std::vector<char*>& extended = *new std::vector<char*>;
    for (const char* assignment : kQuietUcx)
      if (!is_set(assignment)) extended.push_back(const_cast<char*>(assignment));
    for (char** entry = original_; entry != nullptr && *entry != nullptr; ++entry)
      extended.push_back(*entry);
    extended.push_back(nullptr);
    extended_ = extended.data();
    environ = extended_;
  }
  ~QuietEnvironment() {
    if (environ == extended_) environ = original_;
  }
  QuietEnvironment(const QuietEnvironment&) = delete;
  QuietEnvironment& operator=(const QuietEnvironment&) = delete;

 private:
  char** original_;
  char** extended_;
};

std::vector<std::filesystem::path> candidates() {
  std::filesystem::path folder;
  Dl_info info;
  if (::dladdr(reinterpret_cast<const void*>(&create_ucx_transport), &info) != 0) {
    std::error_code error;
    folder = std::filesystem::canonical(info.dli_fname, error).parent_path();
    if (error) folder = std::filesystem::canonical("/proc/self/exe", error).parent_path();
  }
  return {
      folder / kUcxModuleFile,              // side by side
      folder / "unisono" / kUcxModuleFile,  // the library, installed
      folder / ".." / kLibraryFolder / "unisono" /
          kUcxModuleFile,  // a program, installed, moved as a whole
      std::filesystem::path(kPrefix) / kLibraryFolder / "unisono" / kUcxModuleFile,
      folder / "transports/ucx" / kUcxModuleFile,     // the library, in the build folder
      folder / "../transports/ucx" / kUcxModuleFile,  // a program, in the build folder
  };
}

Result<const UcxModule*> load_from(const std::filesystem::path& path) {
  const QuietEnvironment quiet;
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr)
    return unsupported(fmt::format("transport ucx: its module does not load: {}", ::dlerror()));
  const auto* module = static_cast<const UcxModule*>(::dlsym(handle, kUcxModuleSymbol));
  if (module == nullptr)
    return unsupported(
        fmt::format("transport ucx: {} has no symbol {}", path.string(), kUcxModuleSymbol));
  if (std::string_view(module->version) != UNISONO_VERSION)
    return unsupported(fmt::format("transport ucx: {} is of unisono {}, the library of {}",
                                   path.string(), module->version, UNISONO_VERSION));
  return module;
}

Result<const UcxModule*> load() {
  std::string tried;
  for (const std::filesystem::path& path : candidates()) {
    if (::access(path.c_str(), R_OK) == 0) return load_from(path);
    tried += fmt::format("{}{}", tried.empty() ? "" : ", ",
                         path.lexically_normal().parent_path().string());
  }
  return unsupported(
      fmt::format("transport ucx: its module {} is in none of {}", kUcxModuleFile, tried));
}

}  // namespace

Result<std::unique_ptr<Transport>> create_ucx_transport(const TransportContext& context) {
  static const Result<const UcxModule*> module =
      load();  // once, under the lock of its initialisation
  if (!module.ok()) return module.status();
  return (*module)->create(context);
}

}  // namespace unisono
