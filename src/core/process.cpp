// SPDX-License-Identifier: Apache-2.0
#include "src/core/process.h"

#include <pthread.h>

#include <cstdlib>

#include "src/base/unique_handle.h"

namespace rondo {
namespace {

/// Returns a flag that a fork() handler sets in the child process, before the child can start a thread.
std::atomic<bool> &forked() {
  static std::atomic<bool> flag = false;
  return flag;
}

/// Finishes initialisations and servers at exit(), because their threads would end before all ranks have their replies.
/// Those ranks would then learn that the store is gone, but not why. No communicator may be made during the shutdown. A
/// child of fork() does not have these threads.
void end_threads() {
  if (!check_not_forked().ok()) return;
  process().pending_inits.finish_all();
  process().id_servers.remove_all();
}

Process *make_process() {
  static_cast<void>(forked());  // makes the flag before a child can need it
  ::pthread_atfork(nullptr, nullptr, [] {
    forked().store(true, std::memory_order_relaxed);
    close_inherited_descriptors();
  });
  std::atexit(end_threads);
  return new Process;
}

}  // namespace

Process &process() {
  static Process *const instance = make_process();
  return *instance;
}

const Result<Topology> &Process::topology() {
  std::call_once(topology_once_,
                 [this] { topology_.emplace(discover_topology(config.ok() ? config.value() : Config{})); });
  return *topology_;
}

const Result<TuningTable> &Process::tuning() {
  std::call_once(tuning_once_, [this] {
    const std::string path = config.ok() ? config.value().tuning_file : "";
    tuning_.emplace(path.empty() ? Result<TuningTable>(TuningTable()) : read_tuning_file(path));
  });
  return *tuning_;
}

bool is_forked() noexcept { return forked().load(std::memory_order_relaxed); }  // relaxed: set before any other thread

Result<void> check_not_forked() {
  if (!is_forked()) return {};
  return Error{RONDO_ERROR_UNSUPPORTED,
               "this process was forked from one that had used Rondo, and does not have its threads and memory; start "
               "processes by exec, or fork before the first call of Rondo"};
}

}  // namespace rondo
