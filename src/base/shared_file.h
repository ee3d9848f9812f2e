// SPDX-License-Identifier: Apache-2.0
// Memory that processes share: a memfd, which no name refers to, so that nothing stays after a crash.
#pragma once

#include <cstddef>

#include "src/base/result.h"
#include "src/base/unique_handle.h"

namespace rondo {

/// Makes a memfd of `bytes` zero bytes, called `name` in /proc, that can neither shrink nor grow, so that no peer's
/// access faults. RONDO_ERROR_OUT_OF_RESOURCES where descriptors or memory ran out, or where the process may not make a
/// file of that size (ulimit -f): no signal is raised.
[[nodiscard]] Result<FileDescriptor> make_shared_file(size_t bytes, const char *name);

}  // namespace rondo
