// SPDX-License-Identifier: Apache-2.0
// Counts every allocation of a test program, the library's included. Linking allocation_count.cpp turns it on.
#pragma once

#include <cstdint>

namespace rondo_test {

[[nodiscard]] uint64_t allocation_count();

}  // namespace rondo_test
