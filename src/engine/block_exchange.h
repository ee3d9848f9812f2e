// SPDX-License-Identifier: Apache-2.0
// Runs all_to_all, gather and scatter on host memory: blocks go straight from rank to rank, and one thread multiplexes
// them. A block is a lane that the interpreter runs over the FIFO of its pair and direction, the same as that of other
// collectives. So messages never meet these blocks, and a slot shows by its signature to which collective it belongs.
//
// Order     Sends go to the ranks after this one, receives come from the ranks before it, by distance.
// Progress  Every round visits every lane, so all blocks complete once all ranks have called (docs/messages.md).
// In place  An all_to_all in place is one lane a peer, which sends a slot's bytes before it receives as many in their
//           place. Nothing goes by reference then.
// Counts    In a _v collective the size of a block precedes it in a slot of its own. The receiver compares it.
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

namespace rondo {

class BlockExchange {
 public:
  struct Parts {
    std::span<LinkEnds> ends;  ///< by peer
    PeerAccess *peers = nullptr;
    const Scratch *scratch = nullptr;
    uint32_t rank = 0;
    bool wake = false;  ///< ranks may sleep
  };
  /// The parts must outlive it.
  explicit BlockExchange(const Parts &parts);
  BlockExchange(const BlockExchange &) = delete;
  BlockExchange &operator=(const BlockExchange &) = delete;

  /// Runs the operation, whose plan exchanges blocks. One at a time. Only the first one allocates. After stopped or
  /// fault nothing more was published.
  [[nodiscard]] RunOutcome run(const WorkItem &work, Operations &operations, Waiter &waiter);

 private:
  /// A block on its way to or from a peer, or both in place.
  struct Lane {
    LinkEnds *ends = nullptr;
    Block block;
    std::byte *data = nullptr;  ///< of the block
    uint64_t size = 0;          ///< of a _v collective: the block's, as its sender says
    bool sends = false;
    bool counting = false;  ///< `size` is on its way
    bool done = false;
    LaneState state;
    LaneProgram program;
    Buffers buffers;
  };

  void add_lanes(const WorkItem &work);
  Lane &add_lane(const WorkItem &work, uint32_t peer, bool sends, Block block);
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
  const HostReducer copier_;
  std::vector<Lane> lanes_;  ///< of the present operation
  const Lane *faulty_ = nullptr;
};

}  // namespace rondo
