// SPDX-License-Identifier: Apache-2.0
// This unit keeps the times of tests readable.
#pragma once

#include <cstdint>

inline constexpr uint64_t second_ns = 1'000'000'000;
