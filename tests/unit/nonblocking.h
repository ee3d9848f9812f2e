// SPDX-License-Identifier: Apache-2.0
// This file has nonblocking communicators for tests of what does not wait for other ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "rondo/rondo.h"
#include "src/base/clock.h"
#include "tests/catch.h"

namespace rondo_test {

/// Returns a nonblocking communicator's configuration. Its timeout is longer than a test may take.
inline rondo_config_t nonblocking() {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.nonblocking = 1;
  config.init_timeout_ms = 600'000;
  return config;
}

/// Returns the present state of the attempt, such as to make the communicator: RONDO_NOT_READY, or its outcome.
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

/// The ranks of one id, begun by this thread one after the other. Only `present` ranks begin.
struct Begun {
  rondo_unique_id_t id{};
  std::vector<rondo_comm_t> comms;

  explicit Begun(int size, int present, const rondo_config_t &config = nonblocking()) {
    REQUIRE(rondo_get_unique_id(&id, nullptr) == RONDO_OK);
    comms.assign(static_cast<size_t>(present), nullptr);
    for (int rank = 0; rank < present; ++rank)
      REQUIRE(rondo_comm_init(&comms[static_cast<size_t>(rank)], &id, rank, size, &config) == RONDO_OK);
  }
  ~Begun() {
    for (const rondo_comm_t comm : comms) static_cast<void>(rondo_comm_destroy(comm));
  }
  Begun(const Begun &) = delete;
  Begun &operator=(const Begun &) = delete;
};

}  // namespace rondo_test
