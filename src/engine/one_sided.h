// SPDX-License-Identifier: Apache-2.0
// A one-sided operation writes to a window of a peer, signals a peer, or waits for signals of a peer. The signals of
// one number from one rank to another are counted from the begin of the communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/links/remote_memory.h"

namespace rondo {

struct OneSided {
  enum class Kind : uint8_t { put, signal, wait };
  Kind kind = Kind::signal;
  uint32_t peer = 0;
  uint32_t signal = 0;            ///< number of the signal, below signal_count
  uint64_t count = 1;             ///< number of signals that the operation sends or waits for
  uint64_t total = 0;             ///< number of such signals from the communicator's begin to this operation's last
  const std::byte *from = nullptr;  ///< source of a put
  uint64_t bytes = 0;
  uint64_t offset = 0;            ///< byte offset in the buffer of the peer
  std::shared_ptr<const RemoteMemory> to = nullptr;  ///< null if the peer is on another host
  uint64_t window = 0;            ///< number of the window's registration
};

/// A list of one-sided operations, which together are one operation of their rank. They run in the order of the list.
struct OneSidedBatch {
  uint64_t turn = 0;  ///< 0 if only the stream orders the operations
  std::vector<OneSided> operations;
};

}  // namespace rondo
