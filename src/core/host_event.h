// SPDX-License-Identifier: Apache-2.0
// An event: a point in a stream that others can wait for. Each record is a generation; a wait is for the generation
// that was the latest when it began, so recording again does not change what it waits for. Records of one event on
// several streams may complete in any order: the event keeps the list of those that are still to come.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "src/base/result.h"

namespace rondo {

class HostStream;

/// Shared: tasks of streams own their event, so that its handle may be destroyed before they have run. Any thread.
class HostEvent : public std::enable_shared_from_this<HostEvent> {
 public:
  /// Records this point: it is done when `stream` reaches it, or now if `stream` is null.
  Result<void> record(HostStream *stream);

  /// Makes what is enqueued on `stream` from now on wait for the latest record. With null the caller itself waits,
  /// since a call without a stream is complete on return.
  Result<void> hold(HostStream *stream);

  /// Waits for the latest record.
  Result<void> synchronize();

  /// Says whether the latest record is done, or there is none.
  [[nodiscard]] bool done() const;

  /// Returns when the latest record was passed, CLOCK_MONOTONIC; nothing before that and without a record.
  [[nodiscard]] std::optional<uint64_t> timestamp_ns() const;

 private:
  /// A record that is still to come.
  struct Pending {
    uint64_t generation = 0;
    HostStream *stream = nullptr;  // that will reach it, and lives until then; null for this very call
    uint64_t waiter_count = 0;     // callers, not streams, that wait for it
  };

  void publish_record(uint64_t generation);
  void complete_record(uint64_t generation);
  void withdraw_record(uint64_t generation);
  void wait_for(uint64_t generation, bool is_caller);
  [[nodiscard]] bool pending(uint64_t generation) const;

  mutable std::mutex mutex_;  // guards all
  std::condition_variable completed_;
  uint64_t next_ = 1;
  uint64_t latest_ = 0;                // generation of what is enqueued; 0 if never recorded
  uint64_t timed_ = 0;                 // the highest generation that is done, and
  uint64_t timestamp_ns_ = 0;          // when it was passed
  std::vector<Pending> pending_;       // ascending; at most one for each queued task of the streams
};

}  // namespace rondo
