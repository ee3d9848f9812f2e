// SPDX-License-Identifier: Apache-2.0
// The measuring ranks of `rondo tune` share these helpers: communicators that close themselves, and statuses as
// Results.
#pragma once

#include <memory>
#include <string>

#include "rondo/rondo.h"
#include "src/base/result.h"
#include "src/plan/choice.h"

namespace rondo::cli::tune {

[[nodiscard]] inline Result<void> check(rondo_status_t status, rondo_comm_t comm, const char *what) {
  if (status == RONDO_OK) return {};
  rondo_error_t error = RONDO_ERROR_INIT;
  static_cast<void>(rondo_comm_last_error(comm, &error));
  return Error{status, std::string(what) + ": " + error.message};
}

struct CommCloser {
  void operator()(rondo_comm *comm) const { static_cast<void>(rondo_comm_destroy(comm)); }
};
using Comm = std::unique_ptr<rondo_comm, CommCloser>;

[[nodiscard]] inline rondo_config_t config_for(const PlanChoice &choice) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.algorithm = choice.algorithm;
  config.protocol = choice.protocol;
  config.kernel = choice.kernel;
  config.channels = choice.channels;
  config.chunk_bytes = choice.chunk_bytes;
  return config;
}

/// Makes a communicator of all ranks of the job.
[[nodiscard]] inline Result<Comm> make_comm(const PlanChoice &choice) {
  const rondo_config_t config = config_for(choice);
  rondo_comm_t comm = nullptr;
  RONDO_TRY(check(rondo_comm_init_env(&comm, &config), nullptr, "rondo_comm_init_env"));
  return Comm(comm);
}

}  // namespace rondo::cli::tune
