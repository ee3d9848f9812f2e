// SPDX-License-Identifier: Apache-2.0
// The tests of windows share this file. Ranks are threads.
#pragma once

#include <string>
#include <vector>

#include "tests/unit/ranks.h"

namespace rondo_test {

/// The result of a call.
struct Told {
  rondo_status_t status = RONDO_OK;
  std::string message;
};

inline Told tell(rondo_status_t status) { return {status, error_message()}; }

/// A window over a buffer of `bytes` bytes on this rank.
struct Held {
  Held(rondo_comm_t of, size_t bytes, unsigned flags = 0) : comm(of), memory(bytes) {
    status = rondo_window_register(comm, memory.data(), bytes, flags, &window);
  }
  rondo_comm_t comm;
  std::vector<std::byte> memory;
  rondo_window_t window = nullptr;
  rondo_status_t status = RONDO_OK;
};

}  // namespace rondo_test
