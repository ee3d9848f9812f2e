// SPDX-License-Identifier: Apache-2.0
// What a device is to the core: it runs plans in the order of the caller's streams, and tells how far it has come. The
// other ranks, failures and deadlines are the core's affair (src/core/device_calls.cpp): a device only ever stops when
// it is told to. No type of CUDA's is seen here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cuda/kernels/direct_place.h"
#include "src/base/result.h"
#include "src/plan/plan.h"
#include "src/proto/connection.h"
#include "src/proto/interpreter.h"

namespace rondo {

/// A plan as the device has it. Stays while an operation that uses it has not ended.
class DevicePlan {
 public:
  virtual ~DevicePlan() = default;
};

/// What the calls of one rank have told the host from its device; with the kernel executor each is a kernel. Counts
/// grow, but for begun_calls where it was one too many.
struct DeviceReport {
  uint64_t begun_calls = 0;   ///< replays of captured ones among them, and a call that waits for ranks which share its
                              ///< kernel; one too many for the moment in which one ends
  uint64_t ended_calls = 0;   ///< the same as begun_calls: none runs
  uint64_t ended_number = 0;  ///< the operation whose kernel ended last, done or not
  bool failed = false;        ///< a kernel stopped, or met a slot that did not fit; those after it do nothing
  uint64_t failed_number = 0;
  Fault fault = Fault::none;  ///< none: it was told to stop
  uint32_t peer = 0;          ///< fault: whose slot
  /// An operation that was stopped looks like one that is done: what ended after a failure of the communicator does not
  /// count as done.
  bool ends_when_stopped = false;
};

/// A call as the device gets it.
struct DeviceCall {
  DevicePlan *plan = nullptr;
  Buffers buffers;        ///< addresses of the device
  uint64_t number = 0;    ///< of the operation
  uint32_t divisor = 0;   ///< avg: the number of ranks; else 0
  bool captured = false;  ///< into a graph, as check_stream() said: it runs when that is launched, as often as it is
};

/// One rank's. Calls are serialised by the communicator, but for those marked "any thread".
class DeviceExecutor {
 public:
  virtual ~DeviceExecutor() = default;

  [[nodiscard]] virtual ConnectionGeometry geometry() const = 0;
  /// Of the protocol direct; no ranks: there is none here.
  [[nodiscard]] virtual device::DirectGeometry direct_geometry() const { return {}; }
  [[nodiscard]] virtual uint32_t channel_count() const = 0;
  [[nodiscard]] virtual rondo_device_executor_t kind() const = 0;
  /// The chunk size for a vector of that many bytes where nobody asks for one; 0: the tuner's.
  [[nodiscard]] virtual uint64_t chunk_bytes(uint64_t) const { return 0; }
  /// "CUDA device 0 (NVIDIA H100)"
  [[nodiscard]] virtual std::string describe() const = 0;

  /// RONDO_ERROR_INVALID_ARGUMENT: `name` is not memory of this device. Null and 0 bytes are fine. Any thread.
  [[nodiscard]] virtual Result<void> check_buffer(const char *name, const void *pointer, size_t bytes) const = 0;
  /// True: it is being captured. RONDO_ERROR_INVALID_ARGUMENT: not a stream of this device; RONDO_ERROR_UNSUPPORTED:
  /// it must not be captured. Asked before a call takes a number: a launch that fails is the end of the communicator.
  [[nodiscard]] virtual Result<bool> check_stream(void *stream) const = 0;

  [[nodiscard]] virtual Result<std::unique_ptr<DevicePlan>> prepare(const Plan &plan) = 0;
  /// Enqueues and returns; where ranks share a kernel, when all of them have come, or by stop(). `stream`: the
  /// caller's, null for the default stream. What a failure leaves behind ends by itself, or by stop().
  [[nodiscard]] virtual Result<void> launch(const DeviceCall &call, void *stream) = 0;
  /// A stream of its own, for what has none of the caller's: the barrier of finalize.
  [[nodiscard]] virtual void *own_stream() const = 0;
  /// Two bytes of the device, a cache line apart, for barriers.
  [[nodiscard]] virtual std::byte *barrier_buffer(uint32_t which) const = 0;

  /// Any thread.
  [[nodiscard]] virtual DeviceReport report() const = 0;
  /// Ends what runs and what will be launched. Any thread; again and again as long as something has not ended.
  virtual void stop() = 0;
  /// Nothing that was enqueued has still to end. When no calls come any more.
  [[nodiscard]] virtual bool drained() const = 0;
  /// An error of the device that came after a launch, if there is one. Any thread.
  [[nodiscard]] virtual Result<void> check_device() const = 0;
};

}  // namespace rondo
