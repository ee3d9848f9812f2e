// SPDX-License-Identifier: Apache-2.0
// Which processes `rondo status` looks at.
#pragma once

#include <sys/types.h>

#include <vector>

namespace rondo::cli {

/// `root` and all processes below it, zombies included. Those that come or go meanwhile may be missed.
[[nodiscard]] std::vector<pid_t> processes_below(pid_t root);

/// The processes of this user; `everybody`: of all users.
[[nodiscard]] std::vector<pid_t> processes_of_user(bool everybody);

}  // namespace rondo::cli
