// SPDX-License-Identifier: Apache-2.0
// This class holds the communicators that threads are making (rondo_config_t.nonblocking). Until such a communicator is
// ready, its handle refers to an entry here. Any thread may call the functions.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "src/base/cancel.h"
#include "src/base/result.h"
#include "src/core/handle_table.h"

namespace rondo {

class Communicator;

/// An initialisation that needs nothing more from its caller.
struct Initialisation {
  std::function<Result<std::shared_ptr<Communicator>>(const Cancel *cancel)> run;  ///< called once, on any thread
  bool nonblocking = false;                                                        ///< true: run it on another thread
};

class PendingInits {
 public:
  explicit PendingInits(HandleTable<Communicator> &communicators) : communicators_(communicators) {}

  /// Starts the initialisation and returns its handle. If no thread can be started, start() runs the initialisation
  /// itself. The caller must call finish() later.
  [[nodiscard]] Result<void *> start(Initialisation initialisation);

  /// Returns why `handle` has no communicator: RONDO_NOT_READY, or the failure of its initialisation. The result is
  /// empty if the communicator is ready, or `handle` is not known here.
  [[nodiscard]] std::optional<Error> why_not(const void *handle);

  /// Makes a running initialisation fail with RONDO_ERROR_ABORTED. Returns false if it has ended, or is not known.
  [[nodiscard]] bool cancel(const void *handle);

  /// Cancels the initialisation and waits for the end of its thread. Returns true if no communicator was made; the
  /// handle is then free.
  [[nodiscard]] bool finish(const void *handle);
  void finish_all();

 private:
  struct Entry {
    std::unique_ptr<Cancel> cancel;  ///< null if start() itself runs the initialisation
    std::thread thread;
    std::optional<Error> failure;  ///< guarded by the mutex
  };
  void run(const void *handle, Entry &entry, const Initialisation &initialisation);

  static void end(Entry &entry);

  HandleTable<Communicator> &communicators_;
  std::mutex mutex_;
  std::map<const void *, std::unique_ptr<Entry>> entries_;  ///< until the communicator is ready, or until finish()
};

}  // namespace rondo
