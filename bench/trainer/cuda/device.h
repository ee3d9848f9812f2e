// SPDX-License-Identifier: Apache-2.0
// This file declares what the backend needs of a CUDA device: memory, copies, kernels, streams and events. The command
// implements this interface (src/cli/train_cuda.cpp), so the trainer includes only Rondo's public header. Streams,
// events and kernels are handles of the driver, which live as long as the Device.
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

/// A device. Only the thread that opened it uses it, and the device is current on that thread.
class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceFacts &facts() const = 0;

  /// Allocates memory on the device. It may wait for work that runs there.
  [[nodiscard]] virtual Outcome allocate(size_t bytes, void *&memory) = 0;
  virtual void release(void *memory) = 0;
  /// Allocates host memory from which the device copies directly.
  [[nodiscard]] virtual Outcome allocate_pinned(size_t bytes, void *&memory) = 0;
  virtual void release_pinned(void *memory) = 0;

  [[nodiscard]] virtual Outcome make_stream(void *&stream) = 0;
  [[nodiscard]] virtual Outcome make_event(void *&event) = 0;

  // These calls work in the order of a stream. `from` and `to` are on the device or the host.
  [[nodiscard]] virtual Outcome copy(void *to, const void *from, size_t bytes, void *stream) = 0;
  [[nodiscard]] virtual Outcome zero(void *memory, size_t bytes, void *stream) = 0;
  /// Launches a kernel. `parameters` has the values that the kernel takes.
  [[nodiscard]] virtual Outcome launch(void *kernel, const Grid &grid, const void *parameters, void *stream) = 0;
  [[nodiscard]] virtual Outcome record(void *event, void *stream) = 0;
  /// Makes later work on `stream` wait for the event.
  [[nodiscard]] virtual Outcome follow(void *stream, void *event) = 0;

  [[nodiscard]] virtual Outcome find_kernel(const char *name, void *&kernel) = 0;
  /// Makes this thread wait until the stream or the event is done.
  [[nodiscard]] virtual Outcome wait_for_stream(void *stream) = 0;
  [[nodiscard]] virtual Outcome wait_for_event(void *event) = 0;
  /// Returns the time between two events, after both were reached.
  [[nodiscard]] virtual Outcome between_ns(void *from, void *to, double &time_ns) = 0;
};

/// The devices that this process can see.
class Devices {
 public:
  virtual ~Devices() = default;

  /// Counts the devices. Fails if there is no driver or no device.
  [[nodiscard]] virtual Outcome count(int &device_count) = 0;
  /// Opens a device. Fails if this build has no kernels for it.
  [[nodiscard]] virtual Outcome open(int ordinal, std::unique_ptr<Device> &device) = 0;
};

}  // namespace rondo::train
