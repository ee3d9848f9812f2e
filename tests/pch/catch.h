// SPDX-License-Identifier: Apache-2.0
// What nearly every test includes first and what takes longest to read, precompiled where the option b_pch is on.
#include "tests/catch.h"
