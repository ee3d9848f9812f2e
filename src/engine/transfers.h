// SPDX-License-Identifier: Apache-2.0
// A batch of messages: what one rank sends and receives as one operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rondo {

/// One end of a message, as its executor runs it.
struct Transfer {
  std::byte *data = nullptr;  ///< of a send, only ever read
  uint64_t bytes = 0;
  uint64_t message = 0;    ///< number on its pair and direction, from 1
  uint32_t signature = 0;  ///< fingerprint() of the sizes of it and all before it: equal at both ends
  uint32_t peer = 0;       ///< may be this rank
  uint32_t type = 0;       ///< rondo_type_t
  bool sends = false;
};

/// One operation of a rank. No order is kept among messages of different pairs. Messages to this rank itself come in
/// pairs: its n-th send meets its n-th receive.
struct MessageBatch {
  std::vector<Transfer> transfers;  ///< in the order of the calls
  uint64_t turn = 0;
};

}  // namespace rondo
