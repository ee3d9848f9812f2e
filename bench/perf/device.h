// SPDX-License-Identifier: Apache-2.0
// A device as the benchmark needs it: memory, one stream, a graph, two marks in time. Who knows a driver implements it
// (src/cli/perf_cuda.cpp); the benchmark itself knows the public header only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "bench/perf/failure.h"
#include "rondo/rondo.h"

namespace rondo::perf {

/// Plain data that ranks exchange as bytes.
struct DeviceName {
  int32_t ordinal = RONDO_DEVICE_HOST;
  char name[60] = {};
  unsigned char uuid[16] = {};
};

/// One rank's. Used by that rank's thread only.
class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual DeviceName describe() const = 0;
  /// Memory, which stays until the Device ends. It may wait for the device: not while a collective is in flight.
  [[nodiscard]] virtual Outcome allocate(size_t bytes, std::byte *&pointer) = 0;
  /// Complete on return.
  [[nodiscard]] virtual Outcome copy_in(std::byte *to, const std::byte *from, size_t bytes) = 0;
  [[nodiscard]] virtual Outcome copy_out(std::byte *to, const std::byte *from, size_t bytes) = 0;

  [[nodiscard]] virtual rondo_stream_t stream() const = 0;
  /// Marks on the stream, and the time between them once wait() has returned.
  [[nodiscard]] virtual Outcome mark_begin() = 0;
  [[nodiscard]] virtual Outcome mark_end() = 0;
  [[nodiscard]] virtual Outcome elapsed_ns(double &time_ns) = 0;
  [[nodiscard]] virtual Outcome wait() = 0;
  /// Whether all that is on the stream has ended.
  [[nodiscard]] virtual Outcome ended(bool &yes) = 0;
  /// The device is this thread's from now on, as libraries find it that know no ordinals.
  [[nodiscard]] virtual Outcome make_current() = 0;

  /// What is enqueued between the two becomes the graph that replay() enqueues, in place of the one before.
  [[nodiscard]] virtual Outcome begin_capture() = 0;
  [[nodiscard]] virtual Outcome end_capture() = 0;
  [[nodiscard]] virtual Outcome replay() = 0;

  /// The bandwidth of large copies inside the device, bytes read and bytes written, in 10^9 bytes a second.
  [[nodiscard]] virtual Outcome measure_copy(double &GBps) = 0;
};

/// The devices that this process sees.
class Devices {
 public:
  virtual ~Devices() = default;

  /// Fails where there is no driver or no device. Called first, before the process has other threads.
  [[nodiscard]] virtual Outcome count(int &device_count) = 0;
  [[nodiscard]] virtual Outcome open(int ordinal, std::unique_ptr<Device> &device) = 0;
};

}  // namespace rondo::perf
