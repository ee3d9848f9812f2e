// SPDX-License-Identifier: Apache-2.0
// Test programs include this file as <nccl.h> if they do not use NVIDIA's header.
#pragma once

#include "src/compat/abi.h"
