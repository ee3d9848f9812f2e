// SPDX-License-Identifier: Apache-2.0
// These functions check how communicators on devices fail.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "tests/gpu/device_ranks.h"

namespace rondo_test {

/// Says whether RONDO_DEVICE_EXECUTOR names the copy executor.
inline bool by_copies() {
  const char *const executor = std::getenv("RONDO_DEVICE_EXECUTOR");
  return executor != nullptr && std::string(executor) == "copy";
}

/// Returns a rank's configuration with the executor that RONDO_DEVICE_EXECUTOR names, or with the kernel executor.
inline rondo_config_t on_executor() {
  rondo_config_t config = on_device();
  if (std::getenv("RONDO_DEVICE_EXECUTOR") == nullptr) config.device_executor = RONDO_DEVICE_EXECUTOR_KERNEL;
  return config;
}

/// Waits until the communicator has failed, and returns the failure.
inline rondo_error_t await_failure(rondo_comm_t comm) {
  for (int look = 0; look < 120'000; ++look) {  // a limit for a test that hangs
    if (const rondo_error_t error = failure_of(comm); error.status != RONDO_OK) return error;
    rondo::sleep_for_ns(1'000'000);
  }
  FAIL("the communicator does not fail");
  return RONDO_ERROR_INIT;
}

inline void check_failure(rondo_comm_t comm, rondo_status_t status, const std::vector<std::string> &words) {
  const rondo_error_t error = await_failure(comm);
  CAPTURE(error.message);
  CHECK(error.status == status);
  for (const std::string &word : words) {
    CAPTURE(word);
    CHECK(std::string(error.message).find(word) != std::string::npos);
  }
}

}  // namespace rondo_test
