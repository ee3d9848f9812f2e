// SPDX-License-Identifier: Apache-2.0
// This file declares a UCX worker of this process, which has its own context. Only one thread at a time uses it.
#pragma once

#include <memory>

#include "src/bootstrap/bytes.h"
#include "src/links/links.h"
#include "transports/ucx/api.h"

namespace rondo::ucx {

class Worker {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Worker>> open();
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;
  ~Worker();

  [[nodiscard]] const Api &api() const { return api_; }
  [[nodiscard]] ucp_context_h context() const { return context_; }
  [[nodiscard]] ucp_worker_h handle() const { return worker_; }
  /// Returns how many bytes the memory for a request must have before the pointer that UCX gets.
  [[nodiscard]] size_t request_bytes() const { return request_bytes_; }
  /// Says whether payloads may be in memory of a CUDA device.
  [[nodiscard]] bool takes_cuda_memory() const { return takes_cuda_memory_; }
  /// Returns an error if payloads cannot be in `memory`. Null means that no device memory is requested.
  [[nodiscard]] Result<void> check_device_memory(const RdmaMemory *memory) const;
  /// Returns this worker's address, for connect() of another worker.
  [[nodiscard]] Result<Bytes> address() const;
  /// Connects to the worker with this address. If the connection fails, progress() calls `on_failure` once, with
  /// `argument`.
  [[nodiscard]] Result<ucp_ep_h> connect(ByteView address, ucp_err_handler_cb_t on_failure, void *argument) const;
  [[nodiscard]] Result<void> handle_messages(unsigned id, ucp_am_recv_callback_t handler, void *argument) const;
  /// Makes progress. Returns whether something moved.
  bool progress() const { return api_.ucp_worker_progress(worker_) != 0; }
  /// Returns a descriptor that becomes readable when there is work. This holds once arm() has returned true.
  [[nodiscard]] int event_descriptor() const { return event_descriptor_; }
  /// Prepares the event descriptor. Returns false if there is work already.
  [[nodiscard]] bool arm() const { return api_.ucp_worker_arm(worker_) != UCS_ERR_BUSY; }
  /// Returns an error such as "ucp_ep_create: Destination is unreachable".
  [[nodiscard]] Error error(const char *what, ucs_status_t status) const;

 private:
  explicit Worker(const Api &api) : api_(api) {}
  Result<void> open_context();
  Result<void> open_worker();

  const Api &api_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  size_t request_bytes_ = 0;
  bool takes_cuda_memory_ = false;
  int event_descriptor_ = -1;
};

}  // namespace rondo::ucx
