// SPDX-License-Identifier: Apache-2.0
#include "src/core/process.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>

#include "src/base/process_object.h"
#include "src/base/unique_handle.h"
#include "src/core/communicator.h"

namespace rondo {
namespace {

/// The use that this process has made of Rondo.
enum class Use {
  ids,     ///< no use, or unique ids, whose servers a child of fork() does not need
  all,     ///< any other use: a child of fork() cannot use Rondo
  parent,  ///< this process is a child of a parent whose use was `all`
};

/// Returns the use. All accesses are relaxed: a fork() handler changes it before the child can start a thread, and no
/// other data depends on it.
std::atomic<Use> &use() {
  static constinit std::atomic<Use> instance = Use::ids;
  return instance;
}

ProcessObject<Process> &own_object() {
  static constinit ProcessObject<Process> instance;
  return instance;
}

/// Begins the life of a child of fork(). If the parent's use was `ids`, the child starts anew.
void begin_child() {
  if (use().load(std::memory_order_relaxed) == Use::all) use().store(Use::parent, std::memory_order_relaxed);
  close_inherited_descriptors();
  own_object().forget();
}

/// Finishes initialisations, suspends, resumes and servers at exit(). If their threads ended with the process, ranks
/// without a reply would learn that the store is gone, but not why. No communicator may be made during the shutdown. A
/// child of fork() does not have these threads. Then the ranks say that they exit.
void end_threads() {
  Process *const own = own_object().find();
  if (own == nullptr) return;
  own->pending_inits.finish_all();
  for (const auto &comm : own->communicators.all()) comm->end_changes();
  own->id_servers.remove_all();
  for (const auto &comm : own->communicators.all()) comm->exit();
}

/// Registers the handlers for fork() and exit(). Children inherit both handlers.
bool add_handlers() {
  ::pthread_atfork(nullptr, nullptr, begin_child);
  std::atexit(end_threads);
  return true;
}

}  // namespace

Process &process() {
  static const bool has_handlers = add_handlers();
  static_cast<void>(has_handlers);
  return own_object().get();
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

bool is_forked() noexcept { return use().load(std::memory_order_relaxed) == Use::parent; }

bool begin_use() noexcept {
  const Use before = use().load(std::memory_order_relaxed);
  if (before == Use::ids) use().store(Use::all, std::memory_order_relaxed);
  return before != Use::parent;
}

Result<void> check_not_forked() {
  if (!is_forked()) return {};
  return Error{RONDO_ERROR_UNSUPPORTED,
               "this process was forked from one that had used Rondo, and does not have its threads and memory; start "
               "processes by exec, or fork before the first call of Rondo other than rondo_get_unique_id"};
}

}  // namespace rondo
