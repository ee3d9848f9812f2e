// SPDX-License-Identifier: Apache-2.0
// This file has a rank that is a process with a stream and a buffer on a device. The programs of whole-process tests
// share it.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "cuda/driver/handles.h"
#include "rondo/rondo.h"
#include "src/base/config.h"

namespace rondo_test {

struct DeviceProcess {
  const rondo::cuda::CudaDriver *cu = nullptr;
  rondo::cuda::PrimaryContext context;
  rondo::cuda::Stream stream;
  rondo::cuda::DeviceMemory buffer;  ///< `count` int32
  size_t count = 0;
  rondo_comm_t comm = nullptr;
  int rank = 0, size = 1;
  rondo::cuda::CuDevice device = 0;
};

constexpr int wrong_value = -1, driver_failed = -2;  ///< results besides Rondo's statuses

inline rondo::Result<void> set_up(DeviceProcess &self, size_t count) {
  RONDO_TRY_ASSIGN(const rondo::Config config, rondo::read_config());
  RONDO_TRY_ASSIGN(self.cu, rondo::cuda::cuda_driver(config.cuda_library));
  RONDO_TRY_ASSIGN(self.context, rondo::cuda::retain_primary_context(*self.cu, self.device));
  RONDO_TRY_ASSIGN(self.stream, rondo::cuda::make_stream(self.context));
  RONDO_TRY_ASSIGN(self.buffer, rondo::cuda::allocate_device_memory(self.context, count * sizeof(int32_t)));
  self.count = count;
  return {};
}

/// Makes the communicator that the launcher describes in the environment.
inline rondo_status_t join(DeviceProcess &self, uint32_t timeout_ms) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.device = self.device;
  config.timeout_ms = timeout_ms;
  const rondo_status_t made = rondo_comm_init_env(&self.comm, &config);
  if (made != RONDO_OK) return made;
  static_cast<void>(rondo_comm_rank(self.comm, &self.rank));
  static_cast<void>(rondo_comm_size(self.comm, &self.size));
  return RONDO_OK;
}

/// Copies the buffer to the host when the stream's work has ended. If the communicator has failed, returns its failure.
/// The context must be current.
inline int copy_back(const DeviceProcess &self, void *to, size_t bytes) {
  using rondo::cuda::CuStatus;
  auto *const stream = self.stream.get().object;
  const CuStatus copied = self.cu->memcpy_dtoh_async(to, self.buffer.get().object, bytes, stream);
  const CuStatus ended = self.cu->stream_synchronize(stream);
  rondo_status_t state = RONDO_OK;
  if (rondo_comm_get_async_error(self.comm, &state) != RONDO_OK || state != RONDO_OK) return state;
  return copied == CuStatus::success && ended == CuStatus::success ? int{RONDO_OK} : driver_failed;
}

inline rondo_status_t call_sum(const DeviceProcess &self, size_t count) {
  auto *const pointer = reinterpret_cast<void *>(self.buffer.get().object);
  return rondo_all_reduce(pointer, pointer, count, RONDO_INT32, RONDO_SUM, self.comm, self.stream.get().object);
}

/// Makes a graph from a captured sum of `count` elements. Returns a status, or driver_failed.
inline int capture_sum(const DeviceProcess &self, size_t count, rondo::cuda::GraphExec &exec) {
  using rondo::cuda::CuStatus;
  const rondo::cuda::ContextGuard guard(*self.cu, self.context.get().context);
  auto *const stream = self.stream.get().object;
  if (self.cu->stream_begin_capture(stream, rondo::cuda::CaptureMode::thread_local_) != CuStatus::success)
    return driver_failed;
  const rondo_status_t status = call_sum(self, count);
  rondo::cuda::CuGraph graph = nullptr;
  if (self.cu->stream_end_capture(stream, &graph) != CuStatus::success)
    return status != RONDO_OK ? status : driver_failed;
  const rondo::cuda::Graph captured_once({self.cu, self.context.get().context, graph});
  if (status != RONDO_OK) return status;
  rondo::cuda::CuGraphExec made = nullptr;
  if (self.cu->graph_instantiate(&made, graph, 0) != CuStatus::success) return driver_failed;
  exec = rondo::cuda::GraphExec({self.cu, self.context.get().context, made});
  // Without this upload, the first launch might wait for the device.
  const bool uploaded = self.cu->graph_upload(made, stream) == CuStatus::success &&
                        self.cu->stream_synchronize(stream) == CuStatus::success;
  return uploaded ? int{RONDO_OK} : driver_failed;
}

/// Copies inputs to the device, sums `count` elements, and copies results back, all on the stream. Returns a status,
/// driver_failed or wrong_value. If `graph` is not null, launches this graph of capture_sum() instead of the call.
inline int sum_once(const DeviceProcess &self, int round, size_t count, const rondo::cuda::GraphExec *graph = nullptr) {
  using rondo::cuda::CuStatus;
  std::vector<int32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(i % 1000) + self.rank + round;
  const rondo::cuda::ContextGuard guard(*self.cu, self.context.get().context);
  auto *const stream = self.stream.get().object;
  const size_t bytes = count * sizeof(int32_t);
  if (self.cu->memcpy_htod_async(self.buffer.get().object, values.data(), bytes, stream) != CuStatus::success)
    return driver_failed;
  if (graph == nullptr) {
    if (const rondo_status_t status = call_sum(self, count); status != RONDO_OK) return status;
  } else if (self.cu->graph_launch(graph->get().object, stream) != CuStatus::success) {
    return driver_failed;
  }
  if (const int outcome = copy_back(self, values.data(), bytes); outcome != RONDO_OK) return outcome;
  for (size_t i = 0; i < count; ++i)
    if (values[i] != (static_cast<int32_t>(i % 1000) + round) * self.size + self.size * (self.size - 1) / 2)
      return wrong_value;
  return RONDO_OK;
}

/// Prints one line that tests/proc/job.py reads, `rank R: STATUS peer P operation N: MESSAGE`. For success, the message
/// is the name of the executor.
inline void report(const DeviceProcess &self, int status) {
  rondo_error_t error = RONDO_ERROR_INIT;
  if (status > RONDO_OK) static_cast<void>(rondo_comm_last_error(self.comm, &error));
  rondo_comm_properties_t properties = RONDO_COMM_PROPERTIES_INIT;
  if (status == RONDO_OK && rondo_comm_get_properties(self.comm, &properties) == RONDO_OK)
    std::snprintf(error.message, sizeof error.message, "%s", rondo_device_executor_string(properties.device_executor));
  const char *const name = status == wrong_value     ? "WRONG VALUES"
                           : status == driver_failed ? "the driver failed"
                                                     : rondo_status_string(static_cast<rondo_status_t>(status));
  std::printf("rank %d: %s peer %d operation %llu: %s\n", self.rank, name, error.peer,
              static_cast<unsigned long long>(error.operation), error.message);
  std::fflush(stdout);
}

}  // namespace rondo_test
