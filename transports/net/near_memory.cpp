// SPDX-License-Identifier: Apache-2.0
// This file lays out the near FIFOs of links to other hosts in memory.
#include <errno.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "src/base/arithmetic.h"
#include "transports/net/net_transport.h"

namespace rondo::net {
namespace {

constexpr size_t page_bytes = 4096;

size_t stride_of(const ConnectionGeometry &geometry) { return round_up<size_t>(geometry.bytes(), page_bytes); }

/// Maps memory that takes a page only once the page is touched, or registered by a device or network card. The mapping
/// is shared, so that a child of fork() does not get copies in place of registered pages.
Result<std::shared_ptr<const Mapping>> map_links(size_t bytes) {
  void *const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    return system_error("mmap of " + std::to_string(bytes) + " bytes for network links", errno);
  auto mapping = std::make_shared<const Mapping>(MappedRange{static_cast<std::byte *>(address), bytes});
  keep_from_children(*mapping);
  return mapping;
}

}  // namespace

size_t NearMemory::bytes_for(size_t linked_count, uint32_t channel_count, const ConnectionGeometry &geometry) {
  return std::max(2 * linked_count * channel_count * stride_of(geometry), page_bytes);
}

Result<NearMemory> NearMemory::make(const std::vector<bool> &linked, uint32_t channel_count,
                                    const ConnectionGeometry &geometry, const BlockLinks &blocks) {
  NearMemory memory;
  const size_t stride = stride_of(geometry);
  const auto count = [](const std::vector<bool> &of) { return static_cast<size_t>(std::ranges::count(of, true)); };
  const size_t pair_count = count(linked) * channel_count + count(blocks.linked) * blocks.channel_count;
  RONDO_TRY_ASSIGN(memory.mapping_, map_links(bytes_for(pair_count, 1, geometry)));
  std::byte *next = memory.mapping_->get().address;
  const auto add = [&](const std::vector<bool> &ranks, uint32_t channels, LinkUse use) {
    for (uint32_t channel = 0; channel < channels; ++channel)
      for (uint32_t peer = 0; peer < ranks.size(); ++peer) {
        if (!ranks[peer]) continue;
        memory.links_.push_back({peer, channel, {next, geometry}, {next + stride, geometry}, use});
        next += 2 * stride;
      }
  };
  add(linked, channel_count, LinkUse::collectives);
  add(blocks.linked, blocks.channel_count, LinkUse::blocks);
  return memory;
}

Result<void> NearMemory::add_messages(const std::vector<bool> &linked, const ConnectionGeometry &messages,
                                      const std::optional<ConnectionGeometry> &puts) {
  const auto linked_count = static_cast<size_t>(std::ranges::count(linked, true));
  const size_t bytes = bytes_for(linked_count, 1, messages) + (puts ? bytes_for(linked_count, 1, *puts) : 0);
  RONDO_TRY_ASSIGN(message_mapping_, map_links(bytes));
  std::byte *next = message_mapping_->get().address;
  const auto add = [&](const ConnectionGeometry &geometry, LinkUse use) {
    const size_t stride = stride_of(geometry);
    for (uint32_t peer = 0; peer < linked.size(); ++peer) {
      if (!linked[peer]) continue;
      const auto channel =
          static_cast<uint32_t>(std::ranges::count(links_, peer, [](const NearLink &link) { return link.peer; }));
      links_.push_back({peer, channel, {next, geometry}, {next + stride, geometry}, use});
      next += 2 * stride;
    }
  };
  add(messages, LinkUse::messages);
  if (puts) add(*puts, LinkUse::puts);
  return {};
}

const NearLink *NearMemory::find(uint32_t channel, uint32_t peer) const {
  const auto found = std::ranges::find_if(links_, [&](const NearLink &link) {
    return link.channel == channel && link.peer == peer && link.use <= LinkUse::blocks;
  });
  return found != links_.end() ? &*found : nullptr;
}

const NearLink *NearMemory::find(LinkUse use, uint32_t peer) const {
  const auto found =
      std::ranges::find_if(links_, [&](const NearLink &link) { return link.peer == peer && link.use == use; });
  return found != links_.end() ? &*found : nullptr;
}

size_t NearMemory::device_bytes() const {
  size_t bytes = 0;
  for (const NearLink &link : links_)
    bytes += slot_area_bytes(link.outgoing.geometry) + slot_area_bytes(link.incoming.geometry);
  return bytes;
}

void NearMemory::set_device_memory(std::shared_ptr<const RdmaMemory> device) {
  device_ = std::move(device);
  std::byte *next = device_ != nullptr ? device_->bytes().data() : nullptr;
  for (NearLink &link : links_) {
    link.device_outgoing = next;
    if (next != nullptr) next += slot_area_bytes(link.outgoing.geometry);
    link.device_incoming = next;
    if (next != nullptr) next += slot_area_bytes(link.incoming.geometry);
  }
}

}  // namespace rondo::net
