// SPDX-License-Identifier: Apache-2.0
// The programs that `rondo tune` starts: jobs of ranks, which are `rondo run` and `rondo perf` of this very program, so
// that they live as every user's ranks do.
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
  /// What went wrong when it was made.
  [[nodiscard]] Result<void> made() const;
  [[nodiscard]] const std::string &path() const { return path_; }

 private:
  std::string path_;
  int error_number_ = 0;
};

/// This program's file.
[[nodiscard]] Result<std::string> own_program();

/// Runs a program to its end, which it must come to by itself.
/// @param errors_path  where its standard error goes, while its standard output is thrown away; empty: both are ours.
/// @return its exit status, 128 + number after a signal; of a signal that is to end this process, too.
[[nodiscard]] Result<int> execute(const std::vector<std::string> &words, const std::string &errors_path = {});

}  // namespace rondo::cli::tune
