// SPDX-License-Identifier: Apache-2.0
// This file tries out in which ways processes of this host can use each other's memory.
#pragma once

namespace rondo::cli {

struct Capabilities {
  bool memfd = false;            ///< memory whose descriptor can be passed to other processes
  bool own_descriptor = false;   ///< /proc/self/fd/N can be opened again
  bool peer_descriptor = false;  ///< /proc/PID/fd/N of another process of this user can be opened
  bool peer_memory = false;      ///< another process of this user can be read by process_vm_readv
  const char *death_noticed_by = "kill";  ///< the first way of noticing a peer's death that works here
  int ptrace_scope = -1;         ///< setting of the Yama security module; -1 without that module
};

/// Starts a process that tries each way on this process. The caller must have no other threads.
[[nodiscard]] Capabilities find_capabilities();

}  // namespace rondo::cli
