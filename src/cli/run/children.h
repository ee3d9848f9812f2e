// SPDX-License-Identifier: Apache-2.0
// Ends everything below this process. A subreaper inherits each orphan among its descendants, whatever session or group
// the orphan is in. So killing one's children until there are none reaches every descendant from the top down. Only
// children are ever signalled: no other process reaps them, so their numbers cannot have passed on to another process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace rondo::cli {

using ChildEnded = std::function<void(pid_t pid, int wait_status)>;

/// Makes orphans below this process its children. Returns false with errno.
[[nodiscard]] bool become_subreaper();

/// Returns the children of this process, of all its threads, zombies included. It may miss some that start or end
/// meanwhile, so ask again.
[[nodiscard]] std::vector<pid_t> list_children();

/// Reaps what has ended, without waiting, and hands each to `ended`. False: there is no child any more.
bool reap_children(const ChildEnded &ended);

/// Kills and reaps children until there are none, or the deadline. Returns how many are left.
[[nodiscard]] uint32_t kill_children(uint64_t deadline_ns, const ChildEnded &ended);

}  // namespace rondo::cli
