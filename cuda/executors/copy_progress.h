// SPDX-License-Identifier: Apache-2.0
// The streams of the copy-engine executor report the progress of its calls to the host, in pinned memory. A call that
// is not captured writes its own numbers. A captured call cannot, because each replay would write the same numbers.
//
//     replaying   1 while a captured call runs
//     wheel       the numbers 0 to wheel_words - 1 in a circle. At its end, a captured call turns the circle by one,
//                 using copies only. So the first word counts the ended captured calls, modulo wheel_words.
//
// A replay does not write the words of other calls. So neither kind of call can hide the end of the other.
#pragma once

#include <cstdint>
#include <mutex>

#include "src/engine/device_executor.h"
#include "cuda/executors/stream_work.h"

namespace rondo::cuda {

class CopyProgress {
 public:
  /// The number of words of the wheel. It must exceed the number of replays that can end between two checks of the
  /// monitor. After exactly `wheel_words` replays, the wheel looks as if none had ended.
  static constexpr uint32_t wheel_words = 251;
  static constexpr uint64_t scratch_bytes = wheel_words * sizeof(uint64_t);

  [[nodiscard]] Result<void> open(const PrimaryContext &context);
  /// Sets `scratch_bytes` of this rank's device memory, through which the wheel is turned.
  void use_scratch(DevicePointer scratch) { scratch_ = scratch; }
  /// Returns a word that no code reads, on which operations can be tried.
  [[nodiscard]] DevicePointer spare_word() const;

  // A call enqueues begin() first, and end() last.
  [[nodiscard]] Result<void> begin(const StreamWork &work, bool captured);
  /// Enqueues the end of a call. `done` says that the whole call could be enqueued.
  [[nodiscard]] Result<void> end(const StreamWork &work, const DeviceCall &call, bool done);

  /// Reads the progress of the calls. Any thread may call it.
  [[nodiscard]] DeviceReport report() const;
  /// Says whether everything enqueued has ended and no replay runs. Call it after the last call.
  [[nodiscard]] bool drained() const;

 private:
  struct Words;
  [[nodiscard]] Words &words() const { return *static_cast<Words *>(memory_.get().object); }
  /// Returns the address of a word in pinned memory. It is the same for the host and for the device.
  [[nodiscard]] static DevicePointer place_of(const uint64_t &word) { return reinterpret_cast<DevicePointer>(&word); }
  [[nodiscard]] Result<void> turn_wheel(const StreamWork &work) const;

  HostMemory memory_;
  DevicePointer scratch_ = 0;
  uint64_t enqueued_count_ = 0;        ///< calls that were not captured
  mutable std::mutex mutex_;           ///< orders the wheel's reads in report()
  mutable uint64_t replay_count_ = 0;  ///< replays that were seen to end
};

}  // namespace rondo::cuda
