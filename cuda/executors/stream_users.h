// SPDX-License-Identifier: Apache-2.0
// The streams that the ranks of one communicator use, if they are threads of one process on one device. A stream runs
// one call after another, but the call of one rank ends only when the other ranks have theirs. So two ranks must not
// have calls that need each other on one stream. This finds such a call before it is enqueued.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda/driver/driver.h"
#include "src/base/result.h"

namespace rondo::cuda {

/// A stream as a call names it.
struct UsedStream {
  CuStream stream = nullptr;
  uint64_t capture = 0;    ///< id of the capture that the stream is in; 0 for none
  std::thread::id thread;  ///< the caller's, if the stream is the thread's own default stream
  bool blocking = false;   ///< the default stream waits for this one, and this one for the default stream

  bool operator==(const UsedStream &) const = default;
  /// Says whether what one call enqueues waits for what the other enqueued before.
  [[nodiscard]] bool is_in_line_with(const UsedStream &other) const;
};

/// Returns the stream `stream` of the calling thread. Its context is current.
[[nodiscard]] Result<UsedStream> used_stream(const CudaDriver &driver, CuStream stream);

class StreamUsers {
 public:
  /// Returns the users of that name in this process. The first rank to call it makes them. They end with the last rank
  /// that holds them.
  [[nodiscard]] static std::shared_ptr<StreamUsers> join(DevicePointer name, uint32_t rank_count);

  explicit StreamUsers(uint32_t rank_count) : places_(rank_count) {}

  /// Adds `rank` at `place`. `ended` returns the turn of the latest of its operations that has ended, from any thread,
  /// until leave().
  void enter(uint32_t place, uint32_t rank, std::function<uint64_t()> ended);
  void leave(uint32_t place);
  /// Notes that the rank at `place` will enqueue its next operation on `used`. That holds until its next reserve() or
  /// enqueued(). Returns RONDO_ERROR_INVALID_ARGUMENT, and has no effect, if an operation of another rank that waits
  /// for this one would run before it.
  [[nodiscard]] Result<void> reserve(uint32_t place, const UsedStream &used);
  /// Takes back the rank's reserve(), if there is one.
  void cancel(uint32_t place);
  /// Notes that the rank at `place` has enqueued an operation, on the stream that it has reserved, if any. `number` is
  /// that of the collective, or 0 for messages.
  void enqueued(uint32_t place, uint64_t turn, uint64_t number);

 private:
  struct Use {
    UsedStream used;
    uint64_t number = 0;  ///< of the latest collective there
    uint64_t turn = 0;    ///< of the latest operation there
  };
  struct Place {
    uint32_t rank = 0;
    uint64_t number = 0;  ///< of the latest collective that was enqueued
    std::function<uint64_t()> ended;
    std::vector<Use> uses;  ///< of operations that may not have ended; one for each stream
    Use next;               ///< the reserved one; number 0 if there is none
  };

  static void forget_ended(Place &place);

  std::mutex mutex_;  ///< guards places_
  std::vector<Place> places_;
};

}  // namespace rondo::cuda
