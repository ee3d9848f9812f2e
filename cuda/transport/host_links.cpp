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

Result<NetworkLinks::Registered> NetworkLinks::register_links(const PrimaryContext &context,
                                                              std::span<std::byte> bytes) {
  Registered made;
  if (bytes.empty()) return made;
  const CudaDriver &driver = *context.get().driver;
  const ContextGuard guard(driver, context.get().context);
  RONDO_TRY(guard.status());
  const std::string what = "cuMemHostRegister of " + std::to_string(bytes.size()) +
                           " bytes for links to other hosts (RONDO_SLOT_BYTES and RONDO_CHANNELS make them fewer)";
  RONDO_TRY(cuda_check(
      driver, driver.mem_host_register(bytes.data(), bytes.size(), host_register_portable | host_register_device_map),
      what.c_str()));
  made.bytes = bytes;
  made.registration = HostRegistration({&driver, context.get().context, bytes.data()});
  RONDO_TRY(cuda_check(driver, driver.mem_host_get_device_pointer(&made.address, bytes.data(), 0),
                       "cuMemHostGetDevicePointer of the links to other hosts"));
  return made;
}

Result<NetworkLinks> NetworkLinks::connect(const PrimaryContext &context, const Links &links,
                                           const std::vector<uint32_t> &nodes, uint32_t rank) {
  NetworkLinks made;
  made.memory_ = links.network_memory();
  if (made.memory_.bytes.empty()) return made;
  made.links_ = &links;
  made.nodes_ = nodes;
  made.rank_ = rank;
  RONDO_TRY_ASSIGN(made.collectives_, register_links(context, made.memory_.bytes));
  RONDO_TRY_ASSIGN(made.messages_, register_links(context, made.memory_.message_bytes));
  return made;
}

}  // namespace rondo::cuda
