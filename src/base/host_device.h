// SPDX-License-Identifier: Apache-2.0
// RONDO_HD: a function for the host and, under nvcc, for the device too.
#pragma once

#if defined(__CUDACC__)
#define RONDO_HD __host__ __device__
#else
#define RONDO_HD
#endif
