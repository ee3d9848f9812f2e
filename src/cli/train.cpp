// SPDX-License-Identifier: Apache-2.0
// This file is `rondo train`. It replaces its process by the program `rondo-train`, which is installed beside it.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "src/cli/commands.h"

namespace rondo::cli {

int run_train(Arguments args) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = (self.parent_path() / "rondo-train").string();
  std::vector<char *> all{const_cast<char *>(program.c_str())};
  for (const char *arg : args) all.push_back(const_cast<char *>(arg));
  all.push_back(nullptr);
  if (!error) execv(program.c_str(), all.data());
  const int error_number = error ? error.value() : errno;

  const bool help = args.size() == 1 && std::string_view(args[0]) == "--help";
  if (error_number == ENOENT) {
    std::fprintf(help ? stdout : stderr,
                 "rondo train: not in this build (there is no %s): it was built without oneDNN; install libdnnl-dev "
                 "and build again\n",
                 program.c_str());
    if (help) std::fputs("  --help  print this\n", stdout);
    return help ? 0 : exit_usage;
  }
  std::fprintf(stderr, "rondo train: cannot execute %s: %s\n", program.c_str(), std::strerror(error_number));
  return exit_failed;
}

}  // namespace rondo::cli
