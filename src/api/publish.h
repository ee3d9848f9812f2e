// SPDX-License-Identifier: Apache-2.0
// This file gives handles to communicators that are made, or are being made.
#pragma once

#include <memory>
#include <utility>

#include "src/core/communicator.h"
#include "src/core/process.h"

namespace rondo {

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
