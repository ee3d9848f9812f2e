// SPDX-License-Identifier: Apache-2.0
// Host memory that all ranks of a node have in common: a file without a name, which rank 0 makes and the others take.
// Only cuda includes this header.
#pragma once

#include <cstdint>

#include "cuda/transport/info_exchange.h"
#include "src/base/unique_handle.h"

namespace rondo::cuda {

/// Shares a file of `bytes` zeros; every rank calls it, with the same `bytes`. `what` is for people, as "the flags".
[[nodiscard]] Result<FileDescriptor> share_file(const char *key, const char *what, uint64_t bytes,
                                                InfoExchange &info_exchange);

/// Maps all of such a file.
[[nodiscard]] Result<Mapping> map_shared_file(const FileDescriptor &file, const char *what, uint64_t bytes);

}  // namespace rondo::cuda
