// SPDX-License-Identifier: Apache-2.0
// Test programs include this for <nccl.h> where NVIDIA's is not used.
#pragma once

#include "src/compat/abi.h"
