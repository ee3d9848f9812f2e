// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

namespace rondo_test {

/// Whether the tests run under a sanitizer (scripts/test says so): what takes minutes there does less, and says so.
[[nodiscard]] inline bool sanitized() { return std::getenv("RONDO_TEST_SANITIZED") != nullptr; }

}  // namespace rondo_test
