// SPDX-License-Identifier: Apache-2.0
// This file tracks which streams the ranks of one communicator use, if they are threads of one process on one device. A
// stream runs one call after another, but a rank's call ends only when the other ranks run theirs. So two ranks must
// not put calls that need each other on one stream. This class detects such a call before it is enqueued.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/driver/driver.h"
#include "src/base/result.h"
#include "src/engine/executor.h"

namespace rondo::cuda {

/// A stream as a call names it.
struct UsedStream {
  CuStream stream = nullptr;
  uint64_t capture = 0;    ///< id of the capture that the stream is in; 0 for none
  uint64_t thread = 0;     ///< owner_of(stream) in the caller's thread
  bool blocking = false;   ///< the default stream waits for this one, and this one for the default stream

  bool operator==(const UsedStream &) const = default;
  /// Says whether work of a call on one stream waits for earlier work of a call on the other.
  [[nodiscard]] bool is_in_line_with(const UsedStream &other) const;
};

/// Says whether the handle is one of the names of a default stream.
[[nodiscard]] bool is_default_stream(CuStream stream);
/// Returns a number of the calling thread, if the handle names the thread's own default stream. Otherwise returns 0. No
/// other thread ever has the same number.
[[nodiscard]] uint64_t owner_of(CuStream stream);
/// Returns the description of `stream` for the calling thread. `flags` are the driver's.
[[nodiscard]] UsedStream used_stream(CuStream stream, uint64_t capture, unsigned flags);

class StreamUsers {
 public:
  /// Returns the object with that name in this process. The first rank to call it makes the object, and the last rank
  /// that releases it destroys it.
  [[nodiscard]] static std::shared_ptr<StreamUsers> join(DevicePointer name, uint32_t rank_count);

  explicit StreamUsers(uint32_t rank_count) : places_(rank_count) {}

  /// Adds `rank` at index `place`. Until leave(), any thread may call `ended`, which returns the turn of the rank's
  /// latest ended operation.
  void enter(uint32_t place, uint32_t rank, std::function<uint64_t()> ended);
  void leave(uint32_t place);
  /// Records that the rank at `place` will enqueue its next operations on `used`. The record holds until the rank's
  /// next reserve() of a lead, or cancel(). If another rank's operation would run before the new operations and wait
  /// for them, reserve() records nothing and returns RONDO_ERROR_INVALID_ARGUMENT. A joined stream is not recorded.
  /// Another rank may have reserved it, because a group joins its streams before it enqueues.
  [[nodiscard]] Result<void> reserve(uint32_t place, const UsedStream &used, StreamRole role);
  /// Removes the rank's reservation, if there is one.
  void cancel(uint32_t place);
  /// Records that the rank at `place` has enqueued an operation, on its reserved stream if there is one. `number` is
  /// the number of a collective, or 0 for messages.
  void enqueued(uint32_t place, uint64_t turn, uint64_t number);
  /// Records that later work on `behind` waits for the operations of the rank at `place` on `before`.
  void joined(uint32_t place, const UsedStream &before, const UsedStream &behind);

 private:
  struct Use {
    UsedStream used;
    uint64_t number = 0;  ///< of the latest collective on the stream
    uint64_t turn = 0;    ///< of the latest operation on the stream
  };
  struct Place {
    uint32_t rank = 0;
    uint64_t number = 0;  ///< of the latest collective that this rank enqueued
    std::function<uint64_t()> ended;
    std::vector<Use> uses;  ///< of operations that may not have ended, one per stream
    Use next;               ///< the reserved one; number 0 if there is none
  };

  static void forget_ended(Place &place);
  static void add_use(Place &place, const Use &use);

  std::mutex mutex_;  ///< guards places_
  std::vector<Place> places_;
};

}  // namespace rondo::cuda
