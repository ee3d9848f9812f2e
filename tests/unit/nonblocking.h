// SPDX-License-Identifier: Apache-2.0
// This file has nonblocking communicators for tests of rondo_comm_init() and rondo_comm_split().
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "rondo/rondo.h"
#include "src/base/clock.h"

namespace rondo_test {

/// Returns a nonblocking communicator's configuration. Its timeout is longer than a test may take.
inline rondo_config_t nonblocking() {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.nonblocking = 1;
  config.init_timeout_ms = 600'000;
  return config;
}

/// Returns the present state of the attempt: RONDO_NOT_READY, or its outcome.
inline rondo_status_t state_of(rondo_comm_t comm) {
  rondo_status_t status = RONDO_ERROR_INTERNAL;
  return rondo_comm_get_async_error(comm, &status) == RONDO_OK ? status : RONDO_ERROR_INTERNAL;
}

/// Returns the outcome of the attempt, or RONDO_NOT_READY if it has none within two minutes.
inline rondo_status_t outcome_of(rondo_comm_t comm) {
  constexpr uint64_t limit_ns = 120'000'000'000;
  const uint64_t deadline_ns = rondo::now_ns() + limit_ns;
  while (state_of(comm) == RONDO_NOT_READY && rondo::now_ns() < deadline_ns)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  return state_of(comm);
}

}  // namespace rondo_test
