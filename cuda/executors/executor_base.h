// SPDX-License-Identifier: Apache-2.0
// The common base of the executors of a CUDA device. It has the device, the rank's segment there and the order of calls
// on the caller's streams, and answers queries about buffers and errors. A header of cuda/ alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "src/engine/device_executor.h"
#include "cuda/executors/executor.h"
#include "cuda/driver/kernel_set.h"
#include "cuda/transport/segment.h"

namespace rondo::cuda {

/// Returns the device of that ordinal, or RONDO_ERROR_INVALID_ARGUMENT.
[[nodiscard]] Result<CudaDevice> device_of(const CudaDriver &driver, int32_t ordinal);

class ExecutorBase : public DeviceExecutor {
 public:
  /// Every rank calls it, of the same kind, once. After a failure, too, it holds what others may still open.
  [[nodiscard]] virtual Result<void> connect(const DeviceRequest &request, InfoExchange &info_exchange) = 0;

  [[nodiscard]] ExecutorCapabilities capabilities() const override;
  [[nodiscard]] std::string describe() const override {
    return "CUDA device " + std::to_string(device_.ordinal) + " (" + device_.name + ")";
  }
  [[nodiscard]] Result<void> check_buffer(const char *name, const void *pointer, size_t bytes) const override;
  [[nodiscard]] Result<bool> check_stream(StreamRef stream) const override;
  [[nodiscard]] StreamRef own_stream() const override { return {nullptr, stream_.get().object}; }
  [[nodiscard]] Result<void> check_device() const override;

 protected:
  [[nodiscard]] const ConnectionGeometry &geometry() const { return segment_.shape().geometry; }
  /// Finds the driver and the device, loads the kernels.
  [[nodiscard]] Result<void> open(const DeviceRequest &request);
  /// Connects the segment, with `request.handles` as chosen.
  [[nodiscard]] Result<void> connect_segment(const DeviceRequest &request, const SegmentShape &shape,
                                             InfoExchange &info_exchange);

  /// Calls of a communicator come one after the other, whatever streams they are on: they share the ends of its links.
  [[nodiscard]] Result<void> follow_last_stream(CuStream stream, bool captured);
  /// `stream` has the latest call now.
  void note_last_stream(CuStream stream);
  [[nodiscard]] bool last_call_has_ended() const;

  /// At the beginning of a destructor: giving back ends no capture of another thread.
  void begin_to_end() {
    if (driver_ != nullptr) ending_.emplace(*driver_);
  }

  std::optional<CaptureModeGuard> ending_;  ///< first, so that it stays until all that the driver gave is given back
  const CudaDriver *driver_ = nullptr;
  CudaDevice device_;
  PrimaryContext context_;
  KernelSet kernels_;
  NetworkLinks network_;
  Segment segment_;
  Stream stream_;

 private:
  Event launched_;  ///< recorded behind every call that was not captured
  CuStream last_stream_ = nullptr;
  bool launched_any_ = false;
  bool recorded_ = true;  ///< launched_, behind the last call
};

[[nodiscard]] std::unique_ptr<ExecutorBase> make_kernel_executor();
[[nodiscard]] std::unique_ptr<ExecutorBase> make_copy_executor();

}  // namespace rondo::cuda
