// SPDX-License-Identifier: Apache-2.0
// This file counts every allocation of a test program, including the library's. Linking allocation_count.cpp enables
// it.
#pragma once

#include <cstdint>

namespace rondo_test {

[[nodiscard]] uint64_t allocation_count();

/// While an object exists, allocations fail in all threads except its maker's. Only one object may exist at a time.
class OthersOutOfMemory {
 public:
  OthersOutOfMemory();
  ~OthersOutOfMemory();
  OthersOutOfMemory(const OthersOutOfMemory &) = delete;
  OthersOutOfMemory &operator=(const OthersOutOfMemory &) = delete;
};

}  // namespace rondo_test
