// SPDX-License-Identifier: Apache-2.0
// Test programs include this file as <nccl.h> if NVIDIA's header is not used.
#pragma once

#include "src/compat/abi.h"
