// SPDX-License-Identifier: Apache-2.0
// Collectives run beside computation on a lane: a communicator and a stream, with events that record when each
// collective began and ended. On the host, the stream belongs to the library, and its thread runs the collectives. A
// backend for a device has a communicator on that device, and uses the device's streams.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/trainer/lanes/group.h"

namespace rondo::train {

class Lane {
 public:
  using Event = void *;

  virtual ~Lane() = default;  ///< waits for work in flight

  [[nodiscard]] virtual rondo_comm_t comm() const = 0;
  [[nodiscard]] virtual rondo_stream_t stream() const = 0;

  [[nodiscard]] virtual Outcome make_event(Event &event) = 0;
  [[nodiscard]] virtual Outcome record(Event event) = 0;
  /// Makes later collectives wait for the computation that was enqueued until now.
  [[nodiscard]] virtual Outcome follow_computation() = 0;
  /// These functions make the caller wait: wait() for the event, wait_for_all() until everything enqueued is done.
  /// @return a failure, if there was one
  [[nodiscard]] virtual Outcome wait(Event event) = 0;
  [[nodiscard]] virtual Outcome wait_for_all() = 0;

  /// Returns whether the event was reached. Sets its time by the clock of timeline.h.
  [[nodiscard]] virtual bool time_ns(Event event, uint64_t &time_ns) = 0;
  /// Prepares for new events. Call it when nothing is in flight and the times of all events were read.
  virtual void times_taken() {}
};

/// Opens a lane on the host. There, functions compute before they return, so no collective waits for computation.
[[nodiscard]] Outcome open_host_lane(Group &group, std::unique_ptr<Lane> &lane);

}  // namespace rondo::train
