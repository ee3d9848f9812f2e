// SPDX-License-Identifier: Apache-2.0
// This class holds communicators that a thread is still making (rondo_config_t.nonblocking). Until such a communicator
// is ready, its handle refers to an entry here. Any thread.
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
  bool nonblocking = false;                                                        ///< whether the caller asked for it
};

class PendingInits {
 public:
  explicit PendingInits(HandleTable<Communicator> &communicators) : communicators_(communicators) {}

  /// Starts the initialisation and returns its handle. If no thread can be made, this call runs the initialisation
  /// itself. The caller must call finish() later.
  [[nodiscard]] Result<void *> start(Initialisation initialisation);

  /// Returns why `handle` has no communicator: RONDO_NOT_READY, or its failure. Empty if the communicator is made, or
  /// if the handle belongs to no initialisation.
  [[nodiscard]] std::optional<Error> why_not(const void *handle);

  /// Makes a running initialisation fail with RONDO_ERROR_ABORTED. Returns false if it has ended, or is not known.
  [[nodiscard]] bool cancel(const void *handle);

  /// Cancels the initialisation and waits until its thread has ended. Returns true if that thread made no communicator.
  /// The handle is then free.
  [[nodiscard]] bool finish(const void *handle);
  void finish_all();

 private:
  struct Entry {
    std::unique_ptr<Cancel> cancel;  ///< null if there is no thread, so start() waits
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
