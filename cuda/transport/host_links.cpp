// SPDX-License-Identifier: Apache-2.0
#include "cuda/transport/host_links.h"

#include <algorithm>
#include <string>

namespace rondo::cuda {

Result<HostLinks> HostLinks::connect(const PrimaryContext &context, HostLinksShape shape,
                                     InfoExchange &info_exchange) {
  constexpr uint64_t page_bytes = 4096;
  const std::string what = "the links between devices that do not reach each other (RONDO_SLOT_BYTES and "
                           "RONDO_CHANNELS make them smaller)";
  const uint32_t rank = info_exchange.rank(), node = shape.nodes[rank];
  HostLinks made;
  std::erase_if(shape.pairs, [&](const auto &pair) { return shape.nodes[pair.first] != node; });
  made.shape_ = std::move(shape);
  const HostLinksShape &here = made.shape_;
  made.reached_.resize(here.nodes.size());
  bool links_here = false;
  for (const auto &[lesser, greater] : here.pairs)
    if (lesser == rank || greater == rank) links_here = made.reached_[lesser == rank ? greater : lesser] = true;
  const uint64_t used = made.messages_offset() +
                        2 * here.pairs.size() * here.message_channels * here.message_connection_bytes;
  const uint64_t bytes = (used + page_bytes - 1) / page_bytes * page_bytes;
  const auto maker = static_cast<uint32_t>(std::find(here.nodes.begin(), here.nodes.end(), node) - here.nodes.begin());
  RONDO_TRY_ASSIGN(const auto file, share_file(host_links_key, what.c_str(), bytes, maker, info_exchange));
  if (!links_here) return made;
  RONDO_TRY_ASSIGN(made.memory_, register_shared_file(context, file, what, bytes));
  RONDO_TRY_ASSIGN(made.address_, device_address(context, *made.memory_, what));
  return made;
}

uint64_t HostLinks::link_of(uint32_t sender, uint32_t receiver) const {
  const std::pair<uint32_t, uint32_t> pair{std::min(sender, receiver), std::max(sender, receiver)};
  const auto found = std::lower_bound(shape_.pairs.begin(), shape_.pairs.end(), pair);
  return 2 * static_cast<uint64_t>(found - shape_.pairs.begin()) + (sender < receiver ? 0 : 1);
}

DevicePointer HostLinks::connection(uint32_t channel, uint32_t sender, uint32_t receiver) const {
  return address_ + (link_of(sender, receiver) * shape_.channel_count + channel) * shape_.connection_bytes;
}

DevicePointer HostLinks::message_connection(uint32_t channel, uint32_t sender, uint32_t receiver) const {
  return address_ + messages_offset() +
         (link_of(sender, receiver) * shape_.message_channels + channel) * shape_.message_connection_bytes;
}

}  // namespace rondo::cuda
