// SPDX-License-Identifier: Apache-2.0
// The programs that `rondo tune` starts: jobs of ranks, which are `rondo run` and `rondo perf` of this very program, so
// that they run as any user's ranks do.
#pragma once

#include <string>
#include <vector>

#include "src/base/result.h"

namespace rondo::cli::tune {

/// A folder of our own that goes with its files.
class Folder {
 public:
  Folder();
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  ~Folder();
  /// Returns the error of its creation, if it failed.
  [[nodiscard]] Result<void> made() const;
  [[nodiscard]] const std::string &path() const { return path_; }

 private:
  std::string path_;
  int error_number_ = 0;
};

/// Returns the path of this program's file.
[[nodiscard]] Result<std::string> own_program();

/// Runs a program until it ends by itself.
/// @param errors_path  file for its standard error, while its standard output is discarded; if empty, both are ours
/// @return its exit status, or 128 + number after a signal, also if that signal is to end this process
[[nodiscard]] Result<int> execute(const std::vector<std::string> &words, const std::string &errors_path = {});

}  // namespace rondo::cli::tune
