// SPDX-License-Identifier: Apache-2.0
// Communicators that are being made by threads of their own (rondo_config_t.nonblocking), and what their handles stand
// for until they are ready. Any thread.
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

/// An initialisation that has read all it needs of its caller.
struct Initialisation {
  std::function<Result<std::shared_ptr<Communicator>>(const Cancel *cancel)> run;  ///< once, on any thread
  bool nonblocking = false;                                                        ///< the caller's wish
};

class PendingInits {
 public:
  explicit PendingInits(HandleTable<Communicator> &communicators) : communicators_(communicators) {}

  /// Starts it and returns its handle. If no thread can be made, it waits for the end. Call finish() later.
  [[nodiscard]] Result<void *> start(Initialisation initialisation);

  /// Returns why `handle` has no communicator: RONDO_NOT_READY, or its failure. Empty if it has one by now, or if the
  /// handle is not of an initialisation.
  [[nodiscard]] std::optional<Error> why_not(const void *handle);

  /// Fails a running initialisation with RONDO_ERROR_ABORTED. Returns false if it has ended, or is not known.
  [[nodiscard]] bool cancel(const void *handle);

  /// Cancels it and waits for the end of its thread. Returns true if it made no communicator; the handle is then free.
  [[nodiscard]] bool finish(const void *handle);
  void finish_all();

 private:
  struct Entry {
    std::unique_ptr<Cancel> cancel;  ///< null, and no thread: start() waits
    std::thread thread;
    std::optional<Error> failure;  ///< under the mutex
  };
  void run(const void *handle, Entry &entry, const Initialisation &initialisation);

  static void end(Entry &entry);

  HandleTable<Communicator> &communicators_;
  std::mutex mutex_;
  std::map<const void *, std::unique_ptr<Entry>> entries_;  ///< until it is ready, or finish()
};

}  // namespace rondo
