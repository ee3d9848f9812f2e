// SPDX-License-Identifier: Apache-2.0
// The copy-engine executor's streams report the progress of its calls to the host through pinned memory. A call that is
// not captured writes its own numbers. A captured one cannot: a replay would write what it wrote the last time.
//
//     replaying   1 while a captured call runs
//     wheel       the numbers 0 to wheel_words - 1 in a circle; a captured call turns it by one at its end, by copies
//                 alone. So its first word counts the captured calls that have ended, modulo wheel_words.
//
// A replay writes no word that other calls write, so neither can hide the end of the other.
#pragma once

#include <cstdint>
#include <mutex>

#include "src/engine/device_executor.h"
#include "cuda/executors/stream_work.h"

namespace rondo::cuda {

class CopyProgress {
 public:
  /// More than the replays that can end between two checks of the monitor. If that many ended, the monitor would not
  /// see them.
  static constexpr uint32_t wheel_words = 251;
  static constexpr uint64_t scratch_bytes = wheel_words * sizeof(uint64_t);

  [[nodiscard]] Result<void> open(const PrimaryContext &context);
  /// Sets device memory of this rank, `scratch_bytes` of it, through which the wheel is turned.
  void use_scratch(DevicePointer scratch) { scratch_ = scratch; }
  /// Returns a word that nobody reads, to try operations on.
  [[nodiscard]] DevicePointer spare_word() const;

  // A call enqueues begin() first and end() last.
  [[nodiscard]] Result<void> begin(const StreamWork &work, bool captured);
  /// Enqueues the end of a call. `done`: all of it could be enqueued.
  [[nodiscard]] Result<void> end(const StreamWork &work, const DeviceCall &call, bool done);

  /// Reads how far the calls have come. Any thread.
  [[nodiscard]] DeviceReport report() const;
  /// Returns whether all that was enqueued has ended and no replay runs. Call it after the last call.
  [[nodiscard]] bool drained() const;

 private:
  struct Words;
  [[nodiscard]] Words &words() const { return *static_cast<Words *>(memory_.get().object); }
  /// Returns the address of a word, which in pinned memory is the same for the host and for the device.
  [[nodiscard]] static DevicePointer place_of(const uint64_t &word) { return reinterpret_cast<DevicePointer>(&word); }
  [[nodiscard]] Result<void> turn_wheel(const StreamWork &work) const;

  HostMemory memory_;
  DevicePointer scratch_ = 0;
  uint64_t enqueued_count_ = 0;        ///< calls that were not captured
  mutable std::mutex mutex_;           ///< of report(), so that its reads of the wheel are in order
  mutable uint64_t replay_count_ = 0;  ///< that have ended, as far as they were seen
};

}  // namespace rondo::cuda
