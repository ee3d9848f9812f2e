// SPDX-License-Identifier: Apache-2.0
// This file shares host memory among all ranks of a node: a file without a name. Rank 0 creates it, and the other ranks
// take its descriptor. Only cuda includes this header.
#pragma once

#include <cstdint>

#include "cuda/transport/info_exchange.h"
#include "src/base/unique_handle.h"

namespace rondo::cuda {

/// Shares a file of `bytes` zeros. Every rank calls it with the same `bytes`. `what` names the file in messages, such
/// as "the flags".
[[nodiscard]] Result<FileDescriptor> share_file(const char *key, const char *what, uint64_t bytes,
                                                InfoExchange &info_exchange);

/// Maps the whole file.
[[nodiscard]] Result<Mapping> map_shared_file(const FileDescriptor &file, const char *what, uint64_t bytes);

}  // namespace rondo::cuda
