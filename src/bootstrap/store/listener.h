// SPDX-License-Identifier: Apache-2.0
// This file declares the socket on which a store server will listen. Clients may connect before the server runs, and
// then wait in the socket's queue.
#pragma once

#include "src/base/unique_handle.h"
#include "src/bootstrap/store/store.h"

namespace rondo {

struct StoreListener {
  FileDescriptor socket;
  Endpoint endpoint;
};

/// Listens on `address`; port 0 means any free port.
/// @param listen_errno  null, or a variable that gets the errno if the system refused the address, and otherwise 0
[[nodiscard]] Result<StoreListener> listen_for_store(const Endpoint &address, int *listen_errno = nullptr);

/// Serves the clients of a listener.
[[nodiscard]] Result<std::unique_ptr<StoreServer>> start_store_server(StoreListener listener, const Secret &secret,
                                                                      GroupNames names = GroupNames::once);

}  // namespace rondo
