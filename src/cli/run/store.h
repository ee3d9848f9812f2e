// SPDX-License-Identifier: Apache-2.0
// This file starts the store of a job. The launcher runs it on loopback, or the first of several hosts runs it.
// Environment variables pass its address and the job's secret to the ranks.
#pragma once

#include <memory>
#include <string>

#include "src/bootstrap/store/store.h"
#include "src/cli/run/control.h"

namespace rondo::cli {

struct JobStore {
  std::unique_ptr<StoreServer> server;
  Order start;  ///< the order to start the ranks, with RONDO_STORE and RONDO_SECRET
};

/// Returns the order to start ranks that meet at `store` with `secret`, both as text.
[[nodiscard]] Order start_order(const std::string &store, const std::string &secret);

/// Starts the store with a new secret, on its own thread. The caller must not fork after this.
[[nodiscard]] Result<JobStore> start_job_store();

/// Starts the store for ranks of several hosts, on its own thread. Its endpoint has the address that RONDO_INTERFACE
/// chooses, or without that variable, every address that ranks may reach.
[[nodiscard]] Result<JobStore> start_job_store_for_hosts(const std::string &secret);

}  // namespace rondo::cli
