// SPDX-License-Identifier: Apache-2.0
// This header decides how many blocks of its device a rank has, and claims them. A block that is not resident never
// runs while the others wait for it, and calls of several communicators may be in flight at once. So the blocks of all
// ranks of all communicators must be resident together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/driver/budget.h"
#include "cuda/driver/handles.h"
#include "cuda/executors/cuda_executor.h"
#include "cuda/transport/info_exchange.h"
#include "cuda/transport/segment.h"

namespace rondo::cuda {

/// Returns whether agree_on_channels() exchanges anything. The result is the same on all ranks.
[[nodiscard]] bool agrees_on_channels(const PlacedRequest &request);

/// The channels of a rank, each of which is a block.
struct ChannelCounts {
  uint32_t connections = 1;
  uint32_t load_store = 0;  ///< 0: the rank has no load_store, or cannot share buffers with others

  [[nodiscard]] uint32_t blocks() const { return std::max(connections, load_store); }
  void limit(uint32_t blocks) {
    connections = std::min(connections, blocks);
    load_store = std::min(load_store, blocks);
  }
};
/// Returns the channels that a rank would have on a device without claims. `can_load_store` says that the rank has the
/// kernels of load_store and reaches its peers' buffers.
[[nodiscard]] ChannelCounts wanted_channels(const PlacedRequest &request, const BlockBudget &budget,
                                            bool can_load_store);

/// The claims of the ranks of a communicator that are threads of this process on one device.
class ClaimGroup {
 public:
  /// Claims blocks for all these ranks, or finds the claims that another of these ranks has made. Each rank gets
  /// `wanted.blocks()` blocks. If the user requested no number, a rank may get fewer, down to one. The first rank also
  /// claims the blocks of the ranks in other processes. RONDO_ERROR_OUT_OF_RESOURCES: not all of these blocks are free.
  /// `name` is the device's name for messages. Hold the result until all ranks have called.
  [[nodiscard]] static Result<std::shared_ptr<ClaimGroup>> join(const CudaDevice &device, const std::string &name,
                                                                const PlacedRequest &request,
                                                                const BlockBudget &budget,
                                                                const ChannelCounts &wanted);
  explicit ClaimGroup(std::vector<BlockClaim> claims) : claims_(std::move(claims)) {}
  /// Returns the blocks of each rank.
  [[nodiscard]] uint32_t blocks() const { return static_cast<uint32_t>(blocks_); }
  /// Returns the claim of the rank at that position, once.
  [[nodiscard]] BlockClaim take(uint32_t position) { return std::move(claims_[position]); }

 private:
  std::vector<BlockClaim> claims_;
  const uint64_t blocks_ = claims_.front().get().blocks / claims_.front().get().rank_count;
};

/// Returns the largest number of channels that all ranks can have, unless the number is given. With several devices, it
/// also lets kernels of `context` access callers' buffers on the peer devices. If that fails on one rank, all ranks
/// change `request` as if no device reached another. It may fail on one rank alone, because a device allows only a
/// limited number of peers.
[[nodiscard]] Result<ChannelCounts> agree_on_channels(const PrimaryContext &context, ChannelCounts own,
                                                      InfoExchange &info_exchange, PlacedRequest &request);

}  // namespace rondo::cuda
