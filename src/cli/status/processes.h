// SPDX-License-Identifier: Apache-2.0
// Selects the processes that `rondo status` observes.
#pragma once

#include <sys/types.h>

#include <vector>

namespace rondo::cli {

/// Returns `root` and all processes below it, including zombies. It may miss processes that start or end meanwhile.
[[nodiscard]] std::vector<pid_t> processes_below(pid_t root);

/// Returns the processes of this user, or of all users if `everybody` is set.
[[nodiscard]] std::vector<pid_t> processes_of_user(bool everybody);

}  // namespace rondo::cli
