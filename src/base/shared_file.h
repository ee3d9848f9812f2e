// SPDX-License-Identifier: Apache-2.0
// This file makes memory that processes share: a memfd. It has no name in a file system, so nothing remains after a
// crash.
#pragma once

#include <cstddef>

#include "src/base/result.h"
#include "src/base/unique_handle.h"

namespace rondo {

/// Makes a memfd of `bytes` zero bytes, called `name` in /proc. It can neither shrink nor grow, so that no access of a
/// peer faults. RONDO_ERROR_OUT_OF_RESOURCES means that descriptors or memory ran out, or that the process may not make
/// a file of that size (ulimit -f). The function raises no signal.
[[nodiscard]] Result<FileDescriptor> make_shared_file(size_t bytes, const char *name);

}  // namespace rondo
