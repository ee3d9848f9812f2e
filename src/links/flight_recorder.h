// SPDX-License-Identifier: Apache-2.0
// The flight recorder holds the latest operations of the ranks of this host (src/links/recording.h). After a failure,
// one of these ranks writes it to a file. Any thread may call it.
#pragma once

#include <array>
#include <memory>

#include "src/links/recording.h"

namespace rondo {

class FlightRecorder {
 public:
  virtual ~FlightRecorder() = default;

  /// Returns the recording. The result stays readable after the flight recorder is destroyed.
  [[nodiscard]] virtual std::unique_ptr<Recording> recording() const = 0;
  /// Sets the number that Recording::communicator() returns. It is equal on all hosts of a communicator. One rank of
  /// the host calls this function, once.
  virtual void set_communicator(const std::array<uint64_t, 2> &id) = 0;
  /// Sets the number that this host's rank `rank` has among the ranks of all hosts.
  virtual void set_group_rank(uint32_t rank, uint32_t group_rank) = 0;
  /// Sets the offset of this host's clock. It replaces an earlier measurement.
  virtual void set_clock_offset(const ClockOffset &offset) = 0;
  /// Returns true to the first rank of this host that calls it. That rank writes the recording to a file, and then
  /// calls end_dump(true).
  [[nodiscard]] virtual bool claim_dump() = 0;
  /// Ends the claim of claim_dump(). With `finished` false, another rank can claim it.
  virtual void end_dump(bool finished) = 0;
};

}  // namespace rondo
