// SPDX-License-Identifier: Apache-2.0
// This file defines functions of libnccl.so.2 under two names: their own, and that name with a p before it. A profiler
// that replaces a function under its own name can call it under the other name.
#pragma once

#include "src/compat/abi.h"

#define NCCL_EXPORT extern "C" __attribute__((visibility("default")))

/// Gives the second name to a function that was defined under its own name.
#define NCCL_ALIAS(name) NCCL_EXPORT decltype(nccl##name) pnccl##name __attribute__((alias("nccl" #name)));
