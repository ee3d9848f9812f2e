// SPDX-License-Identifier: Apache-2.0
// The flight recorder of a communicator: what the ranks of this host have recorded (src/links/recording.h), and which
// of them writes it to a file after a failure. Any thread.
#pragma once

#include <array>
#include <memory>

#include "src/links/recording.h"

namespace rondo {

class FlightRecorder {
 public:
  virtual ~FlightRecorder() = default;

  /// Stays readable when the recorder is gone.
  [[nodiscard]] virtual std::unique_ptr<Recording> recording() const = 0;
  /// Sets the number that Recording::communicator() returns. It is equal on all hosts of a communicator. Any rank calls
  /// it once.
  virtual void set_communicator(const std::array<uint64_t, 2> &id) = 0;
  /// Returns the number of this host's rank `rank` among the ranks of all hosts.
  virtual void set_group_rank(uint32_t rank, uint32_t group_rank) = 0;
  /// Sets the offset of this host's clock; the latest measurement stays.
  virtual void set_clock_offset(const ClockOffset &offset) = 0;
  /// Returns true for one of the ranks that share the recording. That rank writes it to a file, and calls
  /// end_dump(true).
  [[nodiscard]] virtual bool claim_dump() = 0;
  /// Ends the claim of claim_dump(). With `finished` false the claim is open again.
  virtual void end_dump(bool finished) = 0;
};

}  // namespace rondo
