// SPDX-License-Identifier: Apache-2.0
// This file runs a part of a test in a child process.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"

namespace rondo_test {

/// Runs `body` in a child of fork(). Returns its exit status, or minus the number of the signal that ended it.
template <class Body>
int in_child(const Body &body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(body());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace rondo_test
