// SPDX-License-Identifier: Apache-2.0
// Where collectives run beside computation: a communicator, a stream, and events on it that tell when each began and
// ended. On the host that is a stream of the library, whose thread carries collectives out; a backend for a device has
// a communicator of its own there, and the device's streams.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/trainer/exchange/group.h"

namespace rondo::train {

class Lane {
 public:
  using Event = void *;

  virtual ~Lane() = default;  ///< waits for what is under way

  [[nodiscard]] virtual rondo_comm_t comm() const = 0;
  [[nodiscard]] virtual rondo_stream_t stream() const = 0;

  [[nodiscard]] virtual Outcome make_event(Event &event) = 0;
  [[nodiscard]] virtual Outcome record(Event event) = 0;
  /// What is enqueued from now on comes after what computation was given until now.
  [[nodiscard]] virtual Outcome follow_computation() = 0;
  /// This thread waits until the event is reached, or all that is enqueued is done. @return what failed.
  [[nodiscard]] virtual Outcome wait(Event event) = 0;
  [[nodiscard]] virtual Outcome wait_for_all() = 0;

  /// By the clock of timeline.h; false: the event is not reached.
  [[nodiscard]] virtual bool time_ns(Event event, uint64_t &time_ns) = 0;
  /// The times of all events are taken, and nothing is under way.
  virtual void times_taken() {}
};

/// Of the host; computation is done when its function returns, so there is nothing to follow.
[[nodiscard]] Outcome open_host_lane(Group &group, std::unique_ptr<Lane> &lane);

}  // namespace rondo::train
