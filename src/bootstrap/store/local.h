// SPDX-License-Identifier: Apache-2.0
// This file makes a store for ranks of this process only. It has the core of a store server, but no sockets.
#pragma once

#include "src/bootstrap/store/store.h"

namespace rondo {

/// Returns `count` clients of one store, each for its own thread. The store lives as long as any of the clients.
[[nodiscard]] std::vector<std::unique_ptr<Store>> make_local_stores(uint32_t count);

}  // namespace rondo
