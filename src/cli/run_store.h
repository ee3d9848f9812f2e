// SPDX-License-Identifier: Apache-2.0
// The store of a job: hosted by the launcher, on loopback, with a fresh secret. The ranks learn both by environment.
#pragma once

#include <memory>

#include "src/bootstrap/store.h"
#include "src/cli/run_control.h"

namespace rondo::cli {

struct JobStore {
  std::unique_ptr<StoreServer> server;
  Order start;  ///< the order to start the ranks, with RONDO_STORE and RONDO_SECRET filled in
};

/// Starts the server's thread: fork nothing after this.
[[nodiscard]] Result<JobStore> start_job_store();

}  // namespace rondo::cli
