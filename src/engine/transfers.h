// SPDX-License-Identifier: Apache-2.0
// A batch of messages: what one rank sends and receives as one operation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
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
  Transfer *next = nullptr;  ///< in the queue of its pair and direction, while the batch runs
  bool exchanges = false;  ///< on a device: sends each slice, then receives the peer's in its place
};

/// The transfers of a batch. A few of them need no allocation.
class TransferList {
 public:
  /// Makes room for all that will be added.
  void reserve(size_t count) {
    if (count > few_.size()) many_.resize(count);
  }
  Transfer &add() { return (many_.empty() ? few_.data() : many_.data())[count_++]; }
  [[nodiscard]] std::span<Transfer> all() { return {many_.empty() ? few_.data() : many_.data(), count_}; }

 private:
  std::array<Transfer, 4> few_;
  std::vector<Transfer> many_;  ///< empty: all are in few_
  size_t count_ = 0;
};

/// One operation of a rank. No order is kept among messages of different pairs. Messages to this rank itself come in
/// pairs: its n-th send meets its n-th receive.
struct MessageBatch {
  TransferList transfers;  ///< in the order of the calls
  uint64_t turn = 0;
  bool captured = false;  ///< into a graph, as in WorkItem
};

}  // namespace rondo
