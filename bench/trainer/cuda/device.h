// SPDX-License-Identifier: Apache-2.0
// A CUDA device as the backend needs it: memory, copies, kernels, streams, events. The command line implements it
// (src/cli/train_cuda.cpp); the trainer knows the public header only. Streams, events and kernels are the driver's own
// handles, and live as long as the Device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "bench/failure.h"

namespace rondo::train {

struct DeviceFacts {
  int ordinal = 0;
  std::string name;
  uint32_t multiprocessors = 1;
};

struct Grid {
  uint32_t blocks = 1, threads = 1, shared_bytes = 0;
};

/// Used by the thread that opened it, on which it is current.
class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceFacts &facts() const = 0;

  /// Allocates memory of the device; it may wait for what runs there.
  [[nodiscard]] virtual Outcome allocate(size_t bytes, void *&memory) = 0;
  virtual void release(void *memory) = 0;
  /// Allocates memory of the host that the device copies from without a stop on the way.
  [[nodiscard]] virtual Outcome allocate_pinned(size_t bytes, void *&memory) = 0;
  virtual void release_pinned(void *memory) = 0;

  [[nodiscard]] virtual Outcome make_stream(void *&stream) = 0;
  [[nodiscard]] virtual Outcome make_event(void *&event) = 0;

  // The following calls work in the order of a stream; from and to are of the device or the host.
  [[nodiscard]] virtual Outcome copy(void *to, const void *from, size_t bytes, void *stream) = 0;
  [[nodiscard]] virtual Outcome zero(void *memory, size_t bytes, void *stream) = 0;
  /// Launches a kernel; `parameters` are what the kernel takes by value.
  [[nodiscard]] virtual Outcome launch(void *kernel, const Grid &grid, const void *parameters, void *stream) = 0;
  [[nodiscard]] virtual Outcome record(void *event, void *stream) = 0;
  /// Makes what is enqueued on `stream` from now on wait for the event.
  [[nodiscard]] virtual Outcome follow(void *stream, void *event) = 0;

  [[nodiscard]] virtual Outcome find_kernel(const char *name, void *&kernel) = 0;
  /// Makes this thread wait.
  [[nodiscard]] virtual Outcome wait_for_stream(void *stream) = 0;
  [[nodiscard]] virtual Outcome wait_for_event(void *event) = 0;
  /// Returns the time between two events, once both have been reached.
  [[nodiscard]] virtual Outcome between_ns(void *from, void *to, double &time_ns) = 0;
};

/// The devices that this process sees.
class Devices {
 public:
  virtual ~Devices() = default;

  /// Counts the devices. Fails if there is no driver or no device.
  [[nodiscard]] virtual Outcome count(int &device_count) = 0;
  /// Opens a device. Fails if this build has no kernels for it.
  [[nodiscard]] virtual Outcome open(int ordinal, std::unique_ptr<Device> &device) = 0;
};

}  // namespace rondo::train
