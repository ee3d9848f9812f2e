// SPDX-License-Identifier: Apache-2.0
// Finds out what this host lets processes do with each other's memory, by trying it.
#pragma once

namespace rondo::cli {

struct Capabilities {
  bool memfd = false;            ///< memory that can be handed over by descriptor
  bool own_descriptor = false;   ///< /proc/self/fd/N can be opened again
  bool peer_descriptor = false;  ///< /proc/PID/fd/N of another process of this user can be opened
  bool peer_memory = false;      ///< another process of this user can be read by process_vm_readv
  const char *death_noticed_by = "kill";  ///< how a peer's death is noticed: the first of these that works here
  int ptrace_scope = -1;         ///< of the Yama security module; -1 without that module
};

/// Starts a process that tries each on this one. The caller has no other threads.
[[nodiscard]] Capabilities find_capabilities();

}  // namespace rondo::cli
