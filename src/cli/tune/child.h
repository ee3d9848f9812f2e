// SPDX-License-Identifier: Apache-2.0
// This file starts jobs of ranks for `rondo tune`. The programs are `rondo run` and `rondo perf` of this command, so
// ranks run as a user's ranks do.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "src/base/result.h"

namespace rondo::cli::tune {

/// While this object exists, signals that end a job stay pending until wait_for() takes them. So the launcher ends its
/// ranks first, and then this process removes its folder. An interrupt from the terminal reaches both processes, other
/// signals reach only this one.
class SignalsHeld {
 public:
  SignalsHeld();
  SignalsHeld(const SignalsHeld &) = delete;
  SignalsHeld &operator=(const SignalsHeld &) = delete;
  ~SignalsHeld() { restore(); }
  /// Restores the mask of signals from before, as a child needs it.
  void restore() const;
  /// Returns the exit status of `child`, or 128 + number after a signal. Passes SIGTERM and SIGHUP to the child. If
  /// this process gets a signal to end, returns 128 + its number, even if the child has just finished.
  [[nodiscard]] int wait_for(pid_t child) const;

 private:
  sigset_t held_{}, before_{};
};

/// A temporary folder, which is removed with its files.
class Folder {
 public:
  Folder();
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  ~Folder();
  /// Returns the error if the folder could not be created.
  [[nodiscard]] Result<void> made() const;
  [[nodiscard]] const std::string &path() const { return path_; }

 private:
  std::string path_;
  int error_number_ = 0;
};

/// Returns the path of this program's file.
[[nodiscard]] Result<std::string> own_program();

/// Runs a program until it ends, with files for its standard output and its standard error.
/// @return its exit status, or 128 + number after a signal, even if that signal was for this process
[[nodiscard]] Result<int> execute(const SignalsHeld &held, const std::vector<std::string> &words,
                                  const std::string &output_path, const std::string &errors_path);

}  // namespace rondo::cli::tune
