// SPDX-License-Identifier: Apache-2.0
// This file counts every allocation of a test program, including the library's. Linking allocation_count.cpp enables
// it.
#pragma once

#include <cstdint>

namespace rondo_test {

[[nodiscard]] uint64_t allocation_count();

}  // namespace rondo_test
