// SPDX-License-Identifier: Apache-2.0
// These functions turn handles into objects. They return RONDO_ERROR_INVALID_HANDLE if a handle has no object.
#pragma once

#include <memory>
#include <utility>

#include "src/core/communicator.h"
#include "src/core/process.h"
#include "src/engine/host_stream.h"

namespace rondo {

/// Returns the communicator, even while a thread suspends or resumes it.
[[nodiscard]] inline Result<std::shared_ptr<Communicator>> made_communicator_of(rondo_comm_t handle) {
  auto comm = process().communicators.find(handle);
  if (comm != nullptr) return comm;
  if (const auto why = process().pending_inits.why_not(handle)) return *why;
  comm = process().communicators.find(handle);  // its initialisation may have ended since the first search
  if (comm == nullptr) return invalid_handle(HandleKind::communicator, handle);
  return comm;
}

[[nodiscard]] inline Result<std::shared_ptr<Communicator>> communicator_of(rondo_comm_t handle) {
  auto comm = made_communicator_of(handle);
  if (comm.ok() && comm.value()->is_changing())
    comm = Error{RONDO_NOT_READY, "the communicator is still being suspended or resumed; rondo_comm_get_async_error() "
                                  "reports when that has ended"};
  return comm;
}

[[nodiscard]] inline Result<std::shared_ptr<HostStream>> stream_of(rondo_stream_t handle) {
  auto stream = process().streams.find(handle);
  if (stream == nullptr) return invalid_handle(HandleKind::stream, handle);
  return stream;
}

/// Returns the object of a stream, or null for the null stream: the work then runs within the caller's call.
[[nodiscard]] inline Result<std::shared_ptr<HostStream>> stream_or_call(rondo_stream_t handle) {
  if (handle == nullptr) return std::shared_ptr<HostStream>();
  return stream_of(handle);
}

[[nodiscard]] inline Result<rondo_comm_t> publish(std::shared_ptr<Communicator> comm) {
  void *const handle = process().communicators.insert(std::move(comm));
  if (handle == nullptr) return no_more_handles(HandleKind::communicator);
  return static_cast<rondo_comm_t>(handle);
}

/// Makes the communicator, or starts to make it. If this rank gets no communicator, the handle is NULL.
[[nodiscard]] inline Result<rondo_comm_t> make(Result<Initialisation> begun) {
  RONDO_TRY_ASSIGN(auto initialisation, std::move(begun));
  if (!initialisation.nonblocking) {
    RONDO_TRY_ASSIGN(auto made, initialisation.run(nullptr));
    if (made == nullptr) return rondo_comm_t{nullptr};
    return publish(std::move(made));
  }
  RONDO_TRY_ASSIGN(void *const handle, process().pending_inits.start(std::move(initialisation)));
  return static_cast<rondo_comm_t>(handle);
}

}  // namespace rondo
