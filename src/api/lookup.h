// SPDX-License-Identifier: Apache-2.0
// These functions turn handles into objects. They return RONDO_ERROR_INVALID_HANDLE for handles that have none.
#pragma once

#include <memory>

#include "src/core/communicator.h"
#include "src/engine/host_stream.h"
#include "src/core/process.h"

namespace rondo {

[[nodiscard]] inline Result<std::shared_ptr<Communicator>> communicator_of(rondo_comm_t handle) {
  auto comm = process().communicators.find(handle);
  if (comm != nullptr) return comm;
  if (const auto why = process().pending_inits.why_not(handle)) return *why;
  comm = process().communicators.find(handle);  // its initialisation may have ended since the first search
  if (comm == nullptr) return invalid_handle(HandleKind::communicator, handle);
  return comm;
}

[[nodiscard]] inline Result<std::shared_ptr<HostStream>> stream_of(rondo_stream_t handle) {
  auto stream = process().streams.find(handle);
  if (stream == nullptr) return invalid_handle(HandleKind::stream, handle);
  return stream;
}

/// Returns null for the null stream. The caller then runs the work before it returns.
[[nodiscard]] inline Result<std::shared_ptr<HostStream>> stream_or_call(rondo_stream_t handle) {
  if (handle == nullptr) return std::shared_ptr<HostStream>();
  return stream_of(handle);
}

}  // namespace rondo
