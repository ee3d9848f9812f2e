// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

namespace rondo_test {

/// Returns whether the tests run under a sanitizer (scripts/test says so). Tests that take minutes there do less, and
/// say so.
[[nodiscard]] inline bool sanitized() { return std::getenv("RONDO_TEST_SANITIZED") != nullptr; }

}  // namespace rondo_test
