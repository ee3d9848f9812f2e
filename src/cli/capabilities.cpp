// SPDX-License-Identifier: Apache-2.0
#include "src/cli/capabilities.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "src/base/kernel_file.h"
#include "src/base/unique_handle.h"

namespace rondo::cli {
namespace {

constexpr unsigned probe_seconds_max = 10;

/// Runs `probe` in a child process, and returns its result. An alarm ends a probe that does not return.
template <class Probe>
bool in_other_process(const Probe &probe) {
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    ::alarm(probe_seconds_max);
    ::_exit(probe() ? 0 : 1);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool can_open(const std::string &path) { return FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC)).valid(); }

/// Reads `there` in `process`, the parent of this process. The result holds for ranks, which are siblings: Yama gives
/// more permission only to ancestors.
bool can_read(pid_t process, const int &there) {
  int here = 0;
  const iovec local{&here, sizeof here};
  const iovec remote{const_cast<int *>(&there), sizeof there};
  return ::process_vm_readv(process, &local, 1, &remote, 1, 0) == sizeof here;
}

}  // namespace

Capabilities find_capabilities() {
  Capabilities found;
  const pid_t self = ::getpid();
  const FileDescriptor memory(::memfd_create("rondo-info", MFD_CLOEXEC));
  found.memfd = memory.valid();
  if (found.memfd) {
    const std::string number = std::to_string(memory.get());
    found.own_descriptor = can_open("/proc/self/fd/" + number);
    const std::string path = "/proc/" + std::to_string(self) + "/fd/" + number;
    found.peer_descriptor = proc_has_own_numbers() && in_other_process([&] { return can_open(path); });
  }
  const int value = 1;
  found.peer_memory = in_other_process([&] { return can_read(self, value); });
  // The transport tries these ways in the same order (transports/shm/peers.cpp).
  if (FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, self, 0))).valid())
    found.death_noticed_by = "pidfd_open";
  else if (process_stat(self))
    found.death_noticed_by = "/proc/PID/stat";
  std::ifstream scope("/proc/sys/kernel/yama/ptrace_scope");
  if (!(scope >> found.ptrace_scope)) found.ptrace_scope = -1;
  return found;
}

}  // namespace rondo::cli
