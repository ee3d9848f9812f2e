// SPDX-License-Identifier: Apache-2.0
// This file defines a function of libnccl.so.2 under its name, and under a second name with a p before it. A profiler
// that replaces the first one calls the second.
#pragma once

#include "src/compat/abi.h"

#define NCCL_EXPORT extern "C" __attribute__((visibility("default")))

/// Gives a function that this file has defined its second name.
#define NCCL_ALIAS(name) NCCL_EXPORT decltype(nccl##name) pnccl##name __attribute__((alias("nccl" #name)));
