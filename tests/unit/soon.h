// SPDX-License-Identifier: Apache-2.0
// This deadline only detects hangs.
#pragma once

#include "src/base/clock.h"
#include "tests/seconds.h"

inline uint64_t soon() { return rondo::now_ns() + 120 * second_ns; }
