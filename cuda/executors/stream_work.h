// SPDX-License-Identifier: Apache-2.0
// This file declares work that the copy-engine executor enqueues on a stream. Each function is one call of the driver.
// In a captured stream each becomes a node of the graph.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/driver/handles.h"

namespace rondo::cuda {

struct StreamWork {
  const CudaDriver *driver = nullptr;
  CuStream stream = nullptr;
  unsigned wait_flags = wait_value_geq;

  /// Waits until *word - value >= 0.
  [[nodiscard]] Result<void> wait(DevicePointer word, uint64_t value) const {
    return cuda_check(*driver, driver->stream_wait_value64(stream, word, value, wait_flags), "cuStreamWaitValue64");
  }
  /// Writes the value after a fence. A reader of the value sees all earlier work of the stream.
  [[nodiscard]] Result<void> write(DevicePointer word, uint64_t value) const {
    return cuda_check(*driver, driver->stream_write_value64(stream, word, value, write_value_default),
                      "cuStreamWriteValue64");
  }
  [[nodiscard]] Result<void> copy(DevicePointer to, DevicePointer from, uint64_t bytes, const char *what) const {
    return cuda_check(*driver, driver->memcpy_async(to, from, bytes, stream), what);
  }
};

/// Returns the flags of waits for words that other devices write. RONDO_ERROR_UNSUPPORTED: the device, which `name`
/// describes, has no such waits.
[[nodiscard]] inline Result<unsigned> wait_flags_of(const CudaDriver &driver, CuDevice device,
                                                    const std::string &name) {
  RONDO_TRY_ASSIGN(const int can_wait,
                   device_attribute(driver, device, DeviceAttribute::can_use_64_bit_stream_mem_ops));
  if (can_wait == 0)
    return Error{RONDO_ERROR_UNSUPPORTED,
                 name + " has no stream memory operations of 64 bits, which the copy-engine executor needs; set "
                        "RONDO_DEVICE_EXECUTOR=kernel"};
  RONDO_TRY_ASSIGN(const int can_flush, device_attribute(driver, device, DeviceAttribute::can_flush_remote_writes));
  return wait_value_geq | (can_flush != 0 ? unsigned{wait_value_flush} : 0u);
}

/// Captures a wait for `word` and a write to it, and discards the graph. Returns an error if the driver cannot capture
/// them. `work` must belong to an idle stream.
[[nodiscard]] inline Result<void> try_capture(const StreamWork &work, CuContext context, DevicePointer word) {
  const CudaDriver &driver = *work.driver;
  // Relaxed, because this mode forbids nothing to other threads of the process.
  RONDO_TRY(cuda_check(driver, driver.stream_begin_capture(work.stream, CaptureMode::relaxed), "cuStreamBeginCapture"));
  auto taken = work.wait(word, 0);
  if (taken.ok()) taken = work.write(word, 0);
  CuGraph captured = nullptr;
  const CuStatus ended = driver.stream_end_capture(work.stream, &captured);
  if (ended == CuStatus::success) const Graph thrown_away({&driver, context, captured});
  if (!taken.ok()) return taken;
  return cuda_check(driver, ended, "cuStreamEndCapture");
}

}  // namespace rondo::cuda
