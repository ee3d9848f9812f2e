// SPDX-License-Identifier: Apache-2.0
// This file ends all processes below this process, which is a subreaper. So it inherits every orphan among its
// descendants, even from another session or process group. It kills its children until none are left, and so reaches
// all descendants from the top down. Only children get signals. No other process reaps them, so a child's process
// number cannot belong to a new process yet.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace rondo::cli {

using ChildEnded = std::function<void(pid_t pid, int wait_status)>;

/// Makes this process a subreaper. Returns false with errno if that fails.
[[nodiscard]] bool become_subreaper();

/// Returns the children of all threads of this process, including zombies. It may miss children that start or end
/// during the call, so the caller repeats it.
[[nodiscard]] std::vector<pid_t> list_children();

/// Reaps ended children without waiting, and passes each to `ended`. Returns false if there are no children any more.
bool reap_children(const ChildEnded &ended);

/// Kills and reaps children until there are none, or until the deadline. Returns how many are left.
[[nodiscard]] uint32_t kill_children(uint64_t deadline_ns, const ChildEnded &ended);

}  // namespace rondo::cli
