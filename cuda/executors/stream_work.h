// SPDX-License-Identifier: Apache-2.0
// This file declares work that the copy-engine executor enqueues on a stream. Each function is one call of the driver.
// In a captured stream each becomes a node of the graph.
#pragma once

#include <cstdint>

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

/// Captures a wait for `word` and a write of it, and drops the graph. Returns an error if the driver cannot capture
/// them. The stream of `work` must be idle.
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
