// SPDX-License-Identifier: Apache-2.0
// Finds the program before any rank is started, so that a misspelt name is said once and not by every rank.
#pragma once

#include <string>
#include <string_view>

namespace rondo::cli {

struct ProgramLookup {
  std::string path;     ///< empty: not to be run, for the reason below
  int exit_status = 0;  ///< 127 not found, 126 found but not executable, as shells have it
  std::string message;
};

/// Finds a program as execvp() would: a name with a slash is a path, any other is searched in `search_path`
/// ("dir:dir").
[[nodiscard]] ProgramLookup find_program(const std::string &name, std::string_view search_path);

}  // namespace rondo::cli
