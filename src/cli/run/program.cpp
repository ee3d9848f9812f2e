// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "src/cli/run/job.h"

namespace rondo::cli {
namespace {

/// Returns 0 if the file can be executed, otherwise errno.
int why_not_executable(const std::string &path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  if (!S_ISREG(status.st_mode)) return EACCES;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

bool is_absent(int error_number) { return error_number == ENOENT || error_number == ENOTDIR; }

ProgramLookup cannot_run(const std::string &path, int error_number) {
  if (is_absent(error_number)) return {{}, run_exit_not_found, "program not found: " + path};
  return {{}, run_exit_not_executable, "cannot execute " + path + ": " + std::strerror(error_number)};
}

}  // namespace

ProgramLookup find_program(const std::string &name, std::string_view search_path) {
  if (name.find('/') != std::string::npos) {
    const int error_number = why_not_executable(name);
    return error_number == 0 ? ProgramLookup{name, 0, {}} : cannot_run(name, error_number);
  }
  ProgramLookup found{{}, run_exit_not_found,
                      "program not found: " + name + " (no directory of PATH has it; for one right here: ./" + name +
                          ")"};
  if (name.empty()) return found;
  while (true) {  // one directory per round
    const size_t colon = search_path.find(':');
    const std::string directory(search_path.substr(0, colon));
    const std::string path = (directory.empty() ? "." : directory) + "/" + name;
    const int error_number = why_not_executable(path);
    if (error_number == 0) return {path, 0, {}};
    if (!is_absent(error_number) && found.exit_status == run_exit_not_found) found = cannot_run(path, error_number);
    if (colon == std::string_view::npos) return found;
    search_path.remove_prefix(colon + 1);
  }
}

}  // namespace rondo::cli
