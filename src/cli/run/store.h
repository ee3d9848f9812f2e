// SPDX-License-Identifier: Apache-2.0
// The store of a job: hosted by the launcher on loopback, or on the first of several hosts. The ranks learn its address
// and the job's secret by environment.
#pragma once

#include <memory>
#include <string>

#include "src/bootstrap/store/store.h"
#include "src/cli/run/control.h"

namespace rondo::cli {

struct JobStore {
  std::unique_ptr<StoreServer> server;
  Order start;  ///< the order to start the ranks, with RONDO_STORE and RONDO_SECRET filled in
};

/// Returns the order to start ranks that meet at `store` with `secret`, both as text.
[[nodiscard]] Order start_order(const std::string &store, const std::string &secret);

/// Starts the store with a fresh secret, on a thread of its own: fork nothing after this.
[[nodiscard]] Result<JobStore> start_job_store();

/// Starts the store for ranks of several hosts, and a thread that serves it. It offers the address that RONDO_INTERFACE
/// chooses, or otherwise every address that ranks may reach.
[[nodiscard]] Result<JobStore> start_job_store_for_hosts(const std::string &secret);

}  // namespace rondo::cli
