// SPDX-License-Identifier: Apache-2.0
// This file lets a process open memory that another process exported, with only the 64 bytes of a handle. The handle
// has the name of an abstract unix socket of the owner, and a token. The socket is no file, and disappears with the
// owner. A thread of the owner answers a token with a descriptor, and refuses peers of other users. A receiver does not
// trust an answer from a process other than the one in the handle.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/driver/driver_api.h"

namespace soft_cuda {

using namespace rondo::cuda;

enum class ExportKind : uint32_t { memory = 1, event = 2 };

/// Offers `descriptor` while `alive` lives, and writes the handle's 64 bytes.
CuStatus offer(int descriptor, ExportKind kind, int device, uint64_t bytes, const std::weak_ptr<void> &alive,
               unsigned char *handle);

struct Fetched {
  int descriptor = -1;  ///< the caller must close it
  int device = 0;
  uint64_t bytes = 0;
};

/// Returns a number that is equal for all handles of the same export. Returns 0 if the bytes are no handle of that
/// kind.
[[nodiscard]] uint64_t export_key(const unsigned char *handle, ExportKind kind);

/// Fetches from the owner, which may take a second. The caller must hold no mutex. CUDA_ERROR_INVALID_CONTEXT means
/// that this process is the owner, and may not open its own handles. CUDA_ERROR_MAP_FAILED means that the owner, or
/// what it exported, is gone.
CuStatus fetch(const unsigned char *handle, ExportKind kind, Fetched &fetched);

}  // namespace soft_cuda
