// SPDX-License-Identifier: Apache-2.0
// This file finds the program before any rank is started, so that a misspelt name is reported once and not by every
// rank.
#pragma once

#include <string>
#include <string_view>

namespace rondo::cli {

struct ProgramLookup {
  std::string path;     ///< empty if the program cannot be run; exit_status says why
  int exit_status = 0;  ///< 127 if not found, 126 if not executable, as in shells
  std::string message;
};

/// Finds a program as execvp() would. A name with a slash is a path. Any other name is searched in `search_path`
/// ("dir:dir").
[[nodiscard]] ProgramLookup find_program(const std::string &name, std::string_view search_path);

}  // namespace rondo::cli
