// SPDX-License-Identifier: Apache-2.0
// This class runs all_to_all, gather and scatter on host memory. The transfer of a block is a lane, which the
// interpreter runs over the FIFO from the block's sender to its receiver. One thread visits all lanes. The other
// collectives use the same FIFOs, so every slot has the signature of its collective. Messages use FIFOs of their own.
//
// Order     src/plan/block_lanes.h lists the lanes. A round visits them in that order.
// Progress  Every round visits every lane, so all blocks complete once all ranks have called (docs/messages.md).
// In place  An all_to_all in place has one lane for each peer. The lane sends the bytes of one slot, then overwrites
//           these bytes with as many received bytes, and so on. Such a call sends no block by reference.
// Counts    In a _v collective, a slot with the block's size precedes the block. The receiver checks the size.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/engine/blocks.h"
#include "src/engine/executor.h"
#include "src/engine/host_links.h"
#include "src/engine/operations.h"
#include "src/engine/run_plan.h"
#include "src/engine/waiter.h"
#include "src/plan/block_lanes.h"

namespace rondo {

class BlockExchange {
 public:
  struct Parts {
    std::span<LinkEnds> ends;  ///< indexed by peer
    PeerAccess *peers = nullptr;
    const Scratch *scratch = nullptr;
    uint32_t rank = 0;
    bool wake = false;  ///< true if a peer may sleep, so that this rank must wake it
  };
  /// Copies `parts`. The memory to which `parts` points must outlive this object.
  explicit BlockExchange(const Parts &parts);
  BlockExchange(const BlockExchange &) = delete;
  BlockExchange &operator=(const BlockExchange &) = delete;

  /// Runs an operation whose plan exchanges blocks. One operation runs at a time, and only the first one allocates
  /// memory. After the outcome `stopped` or `fault`, this rank posts no more slots.
  [[nodiscard]] RunOutcome run(const WorkItem &work, Operations &operations, Waiter &waiter);

 private:
  /// The transfer of a block to a peer or from it. In place, one lane does both.
  struct Lane {
    LinkEnds *ends = nullptr;
    Block block;
    std::byte *data = nullptr;  ///< begin of the block
    uint64_t size = 0;          ///< for a _v collective: size of the block according to its sender
    bool sends = false;
    bool counting = false;  ///< true while `size` is being sent or received
    bool done = false;
    LaneState state;
    LaneProgram program;
    Buffers buffers;
  };

  void make_lanes(const WorkItem &work);
  void add_lane(const WorkItem &work, const BlockLane &what, Block block);
  void begin_exchange(Lane &lane) const;
  void begin_data(Lane &lane, const WorkItem &work, Operations &operations) const;
  [[nodiscard]] bool check_size(const Lane &lane, const WorkItem &work, Operations &operations) const;
  void begin(const WorkItem &work, Operations &operations);
  template <class Protocol>
  [[nodiscard]] Progress visit(Lane &lane, const WorkItem &work, Operations &operations) const;
  template <class Protocol>
  [[nodiscard]] Progress round(const WorkItem &work, Operations &operations);
  template <class Protocol>
  [[nodiscard]] RunOutcome run_lanes(const WorkItem &work, Operations &operations, Waiter &waiter);

  const Parts parts_;
  /// The call for which make_lanes() has run. Most programs repeat one call, and its repetitions use the same lanes.
  struct Shape {
    Signature signature;
    bool in_place = false;
    uint64_t chunk_bytes = 0;

    bool operator==(const Shape &) const = default;
  };
  Shape shape_;  ///< chunk_bytes is 0 if no later call can use these lanes
  std::vector<Lane> lanes_;  ///< lanes of the current operation
  const Lane *faulty_ = nullptr;
};

}  // namespace rondo
