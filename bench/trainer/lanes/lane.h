// SPDX-License-Identifier: Apache-2.0
// Collectives run beside computation on a lane: a communicator, a stream, and events on it that record when each began
// and ended. On the host that is a stream of the library, whose thread runs the collectives. A backend for a device has
// a communicator of its own there, and the device's streams.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/trainer/lanes/group.h"

namespace rondo::train {

class Lane {
 public:
  using Event = void *;

  virtual ~Lane() = default;  ///< waits for what is under way

  [[nodiscard]] virtual rondo_comm_t comm() const = 0;
  [[nodiscard]] virtual rondo_stream_t stream() const = 0;

  [[nodiscard]] virtual Outcome make_event(Event &event) = 0;
  [[nodiscard]] virtual Outcome record(Event event) = 0;
  /// Makes later collectives wait for the computation that was enqueued until now.
  [[nodiscard]] virtual Outcome follow_computation() = 0;
  /// This thread waits until the event is reached, or all that is enqueued is done. @return what failed.
  [[nodiscard]] virtual Outcome wait(Event event) = 0;
  [[nodiscard]] virtual Outcome wait_for_all() = 0;

  /// Returns whether the event was reached, and when by the clock of timeline.h.
  [[nodiscard]] virtual bool time_ns(Event event, uint64_t &time_ns) = 0;
  /// The times of all events are taken, and nothing is under way.
  virtual void times_taken() {}
};

/// Opens a lane of the host. Computation is done when its function returns, so no collective waits for it.
[[nodiscard]] Outcome open_host_lane(Group &group, std::unique_ptr<Lane> &lane);

}  // namespace rondo::train
