// SPDX-License-Identifier: Apache-2.0
// An event is a point in a stream for which callers and other streams can wait. Each call of record() begins a
// generation. A wait waits for the generation that is the latest when the wait begins. Records on several streams may
// complete in any order, so the event lists its incomplete records.
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

/// An event. Tasks of streams share its ownership, so its handle may be destroyed before these tasks run. Any thread
/// may call the functions.
class HostEvent : public std::enable_shared_from_this<HostEvent> {
 public:
  /// Records this point of `stream`. The record is done when the stream reaches it, or at once if `stream` is null.
  Result<void> record(HostStream *stream);

  /// Makes later operations on `stream` wait for the latest record. If `stream` is null, the caller waits, because a
  /// call without a stream must be complete when it returns.
  Result<void> hold(HostStream *stream);

  /// Waits for the latest record. @return the failure that the stream had when it reached that record.
  Result<void> synchronize();

  /// Returns whether the latest record is done. Returns true if there is no record.
  [[nodiscard]] bool done() const;

  /// Returns the time, by CLOCK_MONOTONIC, at which the latest record was done. The result is empty if that record is
  /// not done, or nothing was recorded.
  [[nodiscard]] std::optional<uint64_t> timestamp_ns() const;

 private:
  /// A record that is not done yet.
  struct Pending {
    uint64_t generation = 0;
    HostStream *stream = nullptr;  // the stream that will reach the point, and lives until then; null for the caller
    uint64_t waiter_count = 0;     // number of callers, not streams, that wait for the record
  };

  void publish_record(uint64_t generation);
  void complete_record(uint64_t generation, std::optional<Error> failure);
  void withdraw_record(uint64_t generation);
  void wait_for(uint64_t generation, bool is_caller);
  [[nodiscard]] bool pending(uint64_t generation) const;

  mutable std::mutex mutex_;  // guards all members
  std::condition_variable completed_;
  uint64_t next_ = 1;
  uint64_t latest_ = 0;                // generation of the latest enqueued record; 0 if never recorded
  uint64_t timed_ = 0;                 // highest generation that is done
  uint64_t timestamp_ns_ = 0;          // time at which generation timed_ was done
  std::optional<Error> failure_;       // failure of the stream at that time
  std::vector<Pending> pending_;       // ascending; at most one for each queued task of the streams
};

}  // namespace rondo
