// SPDX-License-Identifier: Apache-2.0
// This file declares the interface between links and a network. A link to a rank of another host has a near FIFO on
// each of the two hosts. A near FIFO has the layout of any connection (src/proto/connection.h), so interpreter and
// protocols do not notice the network. The network moves payloads only. After an event of the network, Progress
// (transports/net/progress.h) stores headers, sequences and heads in the near FIFO.
//
// The sender reuses a slot only after the receiver's credit for the slot has arrived. So at most slot_count slots of a
// link are under way, the receiver always has room, and the network needs no flow control.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/links/links.h"
#include "src/proto/connection.h"
#include "src/proto/memory.h"

namespace rondo::net {

/// Returns the size of all slots of a FIFO, in bytes.
[[nodiscard]] inline size_t slot_area_bytes(const ConnectionGeometry &geometry) {
  return size_t{geometry.slot_count} * geometry.slot_bytes;
}

/// The use of a link says what it carries. Links are in the order of these values. Progress serves the links of
/// collectives at once, and the others once this rank needs them.
enum class LinkUse : uint8_t {
  collectives,
  blocks,  ///< blocks of all_to_all, gather and scatter, between ranks that no schedule joins
  messages,
  puts  ///< puts and signals (src/links/remote_memory.h), which FarWindows takes
};

/// The near ends of one link: the pair of directed connections with one peer on one channel.
struct NearLink {
  uint32_t peer = 0;
  uint32_t channel = 0;  ///< numbered from 0 without a gap, among the links with the peer
  ConnectionView outgoing;
  ConnectionView incoming;
  LinkUse use = LinkUse::collectives;
  // Slots in the memory of a device, whose kernels write and read them. Null if the link has none.
  std::byte *device_outgoing = nullptr;  ///< the payloads of outgoing slots lie here, and not in `outgoing`
  std::byte *device_incoming = nullptr;  ///< the network may write arriving payloads here: Event::in_device

  [[nodiscard]] const std::byte *outgoing_payload(uint64_t counter) const {
    if (device_outgoing == nullptr) return outgoing.payload(counter);
    return device_outgoing + outgoing.slot(counter) * outgoing.geometry.slot_bytes;
  }
  [[nodiscard]] std::byte *device_slot(uint64_t counter) const {
    return device_incoming + incoming.slot(counter) * incoming.geometry.slot_bytes;
  }
};

/// Returns the counter with which both ends of a FIFO begin. It is the FIFO's head, which is 0 in fresh memory.
[[nodiscard]] inline uint64_t first_counter(const ConnectionView &fifo) {
  return memory::load_sync(fifo.simple_head());  // pairs with nothing: neither end moves yet
}
/// This advice ends the error text of a link that does not work, if one end of the link has slots in device memory.
inline constexpr const char *device_slots_advice =
    "; slots between the two are in memory of a CUDA device: RONDO_NETWORK_DEVICE_SLOTS=off keeps them in memory of "
    "the hosts";

/// Returns the smallest counter, not below `first`, that is `index` modulo `count`.
[[nodiscard]] inline uint64_t first_counter_of(uint64_t first, uint64_t index, uint64_t count) {
  return first + (index + count - first % count) % count;
}

/// A slot to be sent. The payload must not change until the credit for the slot has arrived.
struct Message {
  uint64_t counter = 0;  ///< counter in the outgoing FIFO; contiguous for each link
  uint32_t signature = 0;
  uint32_t bytes = 0;
  const std::byte *payload = nullptr;
  uint64_t consumed = 0;  ///< credit for the other direction, sent with this message
};

struct Event {
  enum class Kind : uint8_t {
    arrived,  ///< slot `counter` of the incoming FIFO has its payload; header and sequence are still to be stored
    credit,   ///< the peer has consumed `counter` slots of the outgoing FIFO
    lost      ///< a connection with the peer has ended, see why_lost(); others may still bring more. Reported once
  } kind = Kind::arrived;
  uint32_t link = 0;  ///< index of the NearLink; for `lost` any link of the peer
  uint64_t counter = 0;
  uint32_t signature = 0;
  uint32_t bytes = 0;
  bool in_device = false;  ///< arrived: the payload is in NearLink::device_slot(), not in `incoming`
};

/// Collects the events that a poll() returns.
class EventList {
 public:
  explicit EventList(std::span<Event> events) : events_(events) {}
  [[nodiscard]] bool has_room(uint32_t count) const { return count_ + count <= events_.size(); }
  void add(const Event &event) { events_[count_++] = event; }
  [[nodiscard]] uint32_t count() const { return count_; }

 private:
  std::span<Event> events_;
  uint32_t count_ = 0;
};

/// Sends and receives payloads. Only one thread at a time calls it. No function blocks. Once the network was made, no
/// function allocates memory.
class Network {
 public:
  virtual ~Network() = default;
  [[nodiscard]] virtual const char *name() const = 0;

  /// Serves all links from now on. Before this call this rank sends only on links of collectives, and the network may
  /// leave what arrives on other links for later.
  virtual void serve_all() {}
  /// Sends a slot. Returns false if the network has no room; then call it again after poll().
  [[nodiscard]] virtual bool put(uint32_t link, const Message &message) = 0;
  /// Sends credit: this rank has consumed all slots of the incoming FIFO before counter `consumed`. Returns false if
  /// the network has no room.
  [[nodiscard]] virtual bool credit(uint32_t link, uint64_t consumed) = 0;
  /// Sends and receives as much as possible without blocking. Returns how many of `events` it filled. The events of one
  /// link are in the order of their counters.
  [[nodiscard]] virtual uint32_t poll(std::span<Event> events) = 0;
  /// Says whether everything given to put() and credit() will leave without further calls, while the network lives.
  [[nodiscard]] virtual bool flushed() const = 0;
  /// Says whether everything will leave even if the network is destroyed now.
  [[nodiscard]] virtual bool delivered() const { return flushed(); }
  /// Appends the descriptors on which a thread can sleep. When one is ready, poll() has work.
  virtual void watch(std::vector<pollfd> &descriptors) const = 0;
  [[nodiscard]] virtual Error why_lost(uint32_t peer) const = 0;
  /// Succeeds if the network reads payloads from NearLink::device_outgoing and, where possible, writes payloads to
  /// device_incoming. Otherwise the error states the reason.
  [[nodiscard]] virtual Result<void> takes_device_memory() const {
    return Error{RONDO_ERROR_UNSUPPORTED, std::string(name()) + " copies payloads by the host, which does not reach "
                                                                "the memory of a device"};
  }
};

}  // namespace rondo::net
