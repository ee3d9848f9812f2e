// SPDX-License-Identifier: Apache-2.0
#include "src/cli/nccl/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "rondo/rondo.h"

namespace rondo::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view preload = "LD_PRELOAD=";

}  // namespace

Result<std::string> nccl_library() {
  Dl_info library{};
  if (::dladdr(reinterpret_cast<void *>(&rondo_version), &library) == 0)
    return Error{RONDO_ERROR_SYSTEM, "the path of librondo.so cannot be found; install Rondo again"};
  const fs::path folder = fs::path(library.dli_fname).parent_path();
  std::error_code failure;
  for (const fs::path &place : {folder / RONDO_NCCL_INSTALLED, folder / "src/compat/libnccl.so.2"}) {
    const fs::path found = fs::canonical(place.parent_path(), failure) / place.filename();
    if (!failure && fs::exists(found, failure)) return found.string();
  }
  return Error{RONDO_ERROR_UNSUPPORTED, "there is no libnccl.so.2 beside " + std::string(library.dli_fname) + ", at " +
                                            (folder / RONDO_NCCL_INSTALLED).lexically_normal().string() +
                                            "; install Rondo again"};
}

Result<void> preload_nccl(std::vector<std::string> &environment) {
  RONDO_TRY_ASSIGN(std::string entry, nccl_library());
  if (entry.find_first_of(" :") != std::string::npos)
    return Error{RONDO_ERROR_UNSUPPORTED,
                 "LD_PRELOAD cannot hold " + entry +
                     ", because spaces and colons end a name there; install Rondo in a folder without them"};
  entry.insert(0, preload);
  const char *const inherited = std::getenv("LD_PRELOAD");
  std::string others = inherited != nullptr ? inherited : "";
  for (const std::string &each : environment)
    if (each.starts_with(preload)) others = each.substr(preload.size());  // the last entry counts
  if (!others.empty()) entry += ":" + others;
  environment.push_back(std::move(entry));
  return {};
}

}  // namespace rondo::cli
