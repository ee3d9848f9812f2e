// SPDX-License-Identifier: Apache-2.0
// This file has one rank in a test of networks. It has Progress, and does an interpreter's work at its ends of links.
#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "transports/net/progress.h"

namespace rondo::net_test {

inline constexpr uint32_t channel_count = 2;

inline ConnectionGeometry small_geometry() {
  ConnectionGeometry geometry;
  geometry.slot_count = 4;
  geometry.slot_bytes = 1024;
  geometry.ll_slot_bytes = 64;
  return geometry;
}

struct Memory {
  std::unique_ptr<std::byte, decltype(&std::free)> bytes{nullptr, &std::free};
  std::vector<net::NearLink> links;

  /// Makes the memory. Counters begin at `first`.
  explicit Memory(uint32_t peer, uint64_t first = 0) {
    const ConnectionGeometry geometry = small_geometry();
    const size_t stride = (geometry.bytes() + 4095) / 4096 * 4096;
    bytes.reset(static_cast<std::byte *>(std::aligned_alloc(4096, 2 * channel_count * stride)));
    std::memset(bytes.get(), 0, 2 * channel_count * stride);
    std::byte *next = bytes.get();
    for (uint32_t channel = 0; channel < channel_count; ++channel, next += 2 * stride)
      links.push_back({peer, channel, {next, geometry}, {next + stride, geometry}});
    for (const net::NearLink &link : links) link.outgoing.simple_head() = link.incoming.simple_head() = first;
  }
};

/// Returns byte `at` of slot `counter` of link `link`, for slots that `from` sends.
inline std::byte content(uint32_t from, uint32_t link, uint64_t counter, size_t at) {
  return static_cast<std::byte>(from * 101 + link * 53 + counter * 7 + at * 3);
}
inline uint32_t bytes_of_slot(uint64_t counter) {
  return counter % 5 == 4 ? 0 : 1 + static_cast<uint32_t>(counter * 397 % 1024);
}
inline uint32_t signature_of(uint32_t from, uint64_t counter) {
  return from * 1'000'003 + static_cast<uint32_t>(counter);
}

/// Memory that acts as a device's memory.
class TestRdmaMemory final : public RdmaMemory {
 public:
  explicit TestRdmaMemory(size_t bytes) : bytes_(bytes) {}

  std::span<std::byte> bytes() const override { return bytes_; }
  bool is_in_reach_of_host() const override { return in_reach_of_host; }
  int dmabuf() const override { return -1; }
  void run(const std::function<void()> &work) const override {
    const bool before = std::exchange(is_current_, true);
    work();
    is_current_ = before;
  }
  Result<void> flush() const override {
    ++flushes;
    if (!is_current_) return Error{RONDO_ERROR_INTERNAL, "the device is not current"};
    return on_flush ? on_flush() : Result<void>();
  }

  bool is_current() const { return is_current_; }

  bool in_reach_of_host = true;
  mutable uint64_t flushes = 0;
  std::function<Result<void>()> on_flush;

 private:
  mutable std::vector<std::byte> bytes_;
  mutable bool is_current_ = false;
};

struct Side {
  uint32_t number;
  uint64_t first;
  Memory memory;
  std::vector<SimpleSender> senders;
  std::vector<SimpleReceiver> receivers;
  // The numbers of posted and received slots, for each link:
  std::vector<uint64_t> posted = std::vector<uint64_t>(channel_count);
  std::vector<uint64_t> received = std::vector<uint64_t>(channel_count);
  std::shared_ptr<TestRdmaMemory> device;  ///< null if all slots are in `memory`
  uint64_t received_in_device = 0;         ///< over all links
  std::unique_ptr<net::Progress> progress;
  bool wrong = false;

  explicit Side(uint32_t which, uint64_t first_counter = 0)
      : number(which), first(first_counter), memory(1 - which, first) {
    for (const net::NearLink &link : memory.links) {
      senders.emplace_back(link.outgoing, first);
      receivers.emplace_back(link.incoming, first);
    }
  }

  /// Puts the slots into device memory, before the network is made.
  void use_device_memory() {
    const size_t area_bytes = net::slot_area_bytes(small_geometry());
    device = std::make_shared<TestRdmaMemory>(2 * memory.links.size() * area_bytes);
    std::byte *next = device->bytes().data();
    for (uint32_t index = 0; index < memory.links.size(); ++index, next += 2 * area_bytes) {
      net::NearLink &link = memory.links[index];
      link.device_outgoing = next;
      link.device_incoming = next + area_bytes;
      senders[index] = SimpleSender(link.outgoing, first, link.device_outgoing);
    }
  }

  /// Stops using device memory, like a rank whose network does not support it.
  void forget_device_memory() {
    for (uint32_t index = 0; index < memory.links.size(); ++index) {
      net::NearLink &link = memory.links[index];
      link.device_outgoing = link.device_incoming = nullptr;
      senders[index] = SimpleSender(link.outgoing, first);
    }
    device.reset();
  }

  /// Returns the payload where a device's kernel finds it: in the slot, or at an address in the device. Else null.
  const std::byte *payload_of(uint32_t link) {
    const SlotHeader &header = receivers[link].header();
    const auto kind = static_cast<PayloadKind>(header.kind);
    if (kind == PayloadKind::in_slot) return receivers[link].payload();
    const auto *const at = reinterpret_cast<const std::byte *>(header.address);
    if (kind != PayloadKind::address || device == nullptr) return nullptr;
    if (at != memory.links[link].device_slot(header.sequence - 1)) return nullptr;
    ++received_in_device;
    return at;
  }

  bool post(uint32_t link, uint64_t limit) {
    if (posted[link] == limit || !senders[link].can_send()) return false;
    const uint64_t counter = first + posted[link];
    SlotHeader header;
    header.signature = signature_of(number, counter);
    header.bytes = bytes_of_slot(counter);
    for (size_t at = 0; at < header.bytes; ++at)
      senders[link].payload()[at] = content(number, link, counter, at);
    senders[link].post(header, true);
    ++posted[link];
    return true;
  }

  bool receive(uint32_t link) {
    SimpleReceiver &receiver = receivers[link];
    if (!receiver.can_receive()) return false;
    const uint64_t counter = first + received[link]++;
    const SlotHeader &header = receiver.header();
    const std::byte *const payload = payload_of(link);
    wrong |= header.signature != signature_of(1 - number, counter) || header.bytes != bytes_of_slot(counter) ||
             payload == nullptr;
    for (size_t at = 0; !wrong && at < header.bytes; ++at)
      wrong |= payload[at] != content(1 - number, link, counter, at);
    receiver.release(true);
    return true;
  }
};

}  // namespace rondo::net_test
