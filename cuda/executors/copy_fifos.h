// SPDX-License-Identifier: Apache-2.0
// This class has a rank's ends of the FIFOs that a thread of the host serves by copies
// (cuda/executors/copy_messages.h). The protocol is `simple`. The thread polls and writes headers and heads, which are
// words of host memory. Payloads have addresses of the device.
//
// Channels  Channel 0 is for messages, and the others are for collectives. On one node there is only channel 1, for
//           exchanges of blocks. On several nodes there is one for each channel of a plan; blocks use the first.
// Memory    To a rank of this node, headers and heads are in memory that the node's ranks map (cuda/transport/flags.h).
//           Payloads are slots in the receiver's segment, or in HostLinks. To a rank of another node, the FIFO is a
//           link of the network (cuda/transport/host_links.h), as for kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/kernels/transfer.h"
#include "cuda/transport/flags.h"
#include "cuda/transport/host_links.h"
#include "cuda/transport/segment.h"

namespace rondo::cuda {

class CopyFifos {
 public:
  CopyFifos(const Segment &segment, const HostLinks &host_links, const NetworkLinks &network, const Flags &flags);

  /// Returns the ends by peer.
  [[nodiscard]] device::DeviceLinkEnds *ends(uint32_t channel) { return ends_.data() + channel * rank_count_; }
  /// Returns the difference between a payload's address on the device and its address in the view of the FIFO.
  [[nodiscard]] uint64_t to_slots(const device::DeviceLinkEnds &of) const {
    return to_slots_[static_cast<size_t>(&of - ends_.data())];
  }

 private:
  uint32_t rank_count_;
  std::vector<device::DeviceLinkEnds> ends_;  ///< by channel and peer
  std::vector<uint64_t> to_slots_;            ///< likewise
};

/// The link of one transfer, or the links of one lane.
struct CopyLinks : device::TransferLinks {
  const CopyFifos *fifos = nullptr;
  const bool *broken = nullptr;  ///< true: a copy has failed, so nothing is published any more
};

/// The protocol simple for a thread whose payloads are not in its FIFOs.
struct CopyProtocol : device::TransferSimple {
  template <Group G>
  static Progress fetch(G group, CopyLinks &links, LinkIndex link, uint32_t which, uint64_t bytes, uint32_t signature,
                        const std::byte *&operand, Fault &fault) {
    const Progress progress = TransferSimple::fetch(group, links, link, which, bytes, signature, operand, fault);
    const device::DeviceLinkEnds &ends = links.at(link);
    if (progress == Progress::moved && operand == ends.simple_in.payload())  // otherwise the network put it elsewhere
      operand = reinterpret_cast<const std::byte *>(reinterpret_cast<uint64_t>(operand) + links.fifos->to_slots(ends));
    return progress;
  }
  template <Group G>
  static void publish(G group, CopyLinks &links, const Step &step) {
    if (!*links.broken) TransferSimple::publish(group, links, step);
  }
};

}  // namespace rondo::cuda
