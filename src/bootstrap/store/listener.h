// SPDX-License-Identifier: Apache-2.0
// The socket of a store server that is not served yet: clients may connect, and wait in its queue.
#pragma once

#include "src/base/unique_handle.h"
#include "src/bootstrap/store/store.h"

namespace rondo {

struct StoreListener {
  FileDescriptor socket;
  Endpoint endpoint;
};

/// Listens on `address` (port 0: any free one). @param listen_errno  null, or set to the error number with which the
/// system refused the address, 0 if it did not.
[[nodiscard]] Result<StoreListener> listen_for_store(const Endpoint &address, int *listen_errno = nullptr);

/// Serves the clients of a listener.
[[nodiscard]] Result<std::unique_ptr<StoreServer>> start_store_server(StoreListener listener, const Secret &secret,
                                                                      GroupNames names = GroupNames::once);

}  // namespace rondo
