// SPDX-License-Identifier: Apache-2.0
// This file declares what a network is to the links between hosts. A link over a network is two near FIFOs, one on each
// host, of the layout that connections have (src/proto/connection.h); interpreter and protocols do not know. A network
// moves payloads only. Progress (transports/net/progress.h) stores headers, sequences and heads locally, when an event
// says so.
//
// A slot of the sender's FIFO is free again when the receiver's credit for it has arrived. At most slot_count slots of
// a link are under way, so the receiver always has room and no second flow control is needed.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/proto/connection.h"
#include "src/proto/memory.h"
#include "src/links/rdma_memory.h"

namespace rondo::net {

/// Returns the bytes of all slots of a FIFO.
[[nodiscard]] inline size_t slot_area_bytes(const ConnectionGeometry &geometry) {
  return size_t{geometry.slot_count} * geometry.slot_bytes;
}

/// The near ends of one link: the pair of directed connections with one peer on one channel.
struct NearLink {
  uint32_t peer = 0;
  uint32_t channel = 0;  ///< counted from 0 on, without a gap, among the links with the peer
  ConnectionView outgoing;
  ConnectionView incoming;
  bool messages = false;  ///< it carries messages, and no channel of a collective
  // Slots in memory of the device whose kernels post and read; null if there are none.
  std::byte *device_outgoing = nullptr;  ///< payloads are there, and not in `outgoing`
  std::byte *device_incoming = nullptr;  ///< for payloads that the network brings there: Event::in_device

  [[nodiscard]] const std::byte *outgoing_payload(uint64_t counter) const {
    if (device_outgoing == nullptr) return outgoing.payload(counter);
    return device_outgoing + outgoing.slot(counter) * outgoing.geometry.slot_bytes;
  }
  [[nodiscard]] std::byte *device_slot(uint64_t counter) const {
    return device_incoming + incoming.slot(counter) * incoming.geometry.slot_bytes;
  }
};

/// Returns where the counters of a FIFO begin, at both ends: at its head, which is 0 in fresh memory.
[[nodiscard]] inline uint64_t first_counter(const ConnectionView &fifo) {
  return memory::load_sync(fifo.simple_head());  // pairs with nothing: neither end moves yet
}
/// This advice follows the text of a link that does not work, if one of its ends has slots in memory of a device.
inline constexpr const char *device_slots_advice =
    "; slots between the two are in memory of a CUDA device: RONDO_NETWORK_DEVICE_SLOTS=off keeps them in memory of "
    "the hosts";

/// Returns the first counter from `first` on that is `index` modulo `count`.
[[nodiscard]] inline uint64_t first_counter_of(uint64_t first, uint64_t index, uint64_t count) {
  return first + (index + count - first % count) % count;
}

/// A slot to be sent. Its payload stays as it is until the credit for it has arrived.
struct Message {
  uint64_t counter = 0;  ///< of the outgoing FIFO: contiguous for each link
  uint32_t signature = 0;
  uint32_t bytes = 0;
  const std::byte *payload = nullptr;
  uint64_t consumed = 0;  ///< credit for the other direction, which travels along
};

struct Event {
  enum class Kind : uint8_t {
    arrived,  ///< slot `counter` of the incoming FIFO has its payload; header and sequence are still to be stored
    credit,   ///< the peer has consumed `counter` slots of the outgoing FIFO
    lost      ///< a connection with `peer` has ended; others may still bring more. Reported once. Network::why_lost()
  } kind = Kind::arrived;
  uint32_t link = 0;  ///< index of the NearLink; for `lost` any link of the peer
  uint64_t counter = 0;
  uint32_t signature = 0;
  uint32_t bytes = 0;
  bool in_device = false;  ///< arrived: the payload is in NearLink::device_slot(), not in `incoming`
};

/// A poll() fills this list.
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

/// Calls of one thread at a time. Nothing blocks, and nothing allocates after the network was made.
class Network {
 public:
  virtual ~Network() = default;
  [[nodiscard]] virtual const char *name() const = 0;

  /// Serves the links of messages from now on. Before this call nothing is sent on them, and the network may ignore
  /// what arrives for them.
  virtual void open_messages() {}
  /// Sends a slot. Returns false if there is no room; call it again after poll().
  [[nodiscard]] virtual bool put(uint32_t link, const Message &message) = 0;
  /// Reports that `consumed` slots of the incoming FIFO were consumed, counted from the beginning. False: no room.
  [[nodiscard]] virtual bool credit(uint32_t link, uint64_t consumed) = 0;
  /// Sends and receives what can be; returns how many of `events` it filled in. An event of an earlier counter of a
  /// link comes first.
  [[nodiscard]] virtual uint32_t poll(std::span<Event> events) = 0;
  /// Says whether all that was put and credited leaves without further calls, as long as the network lives.
  [[nodiscard]] virtual bool flushed() const = 0;
  /// Says whether all of it would leave even if the network ended now.
  [[nodiscard]] virtual bool delivered() const { return flushed(); }
  /// Appends the descriptors to sleep on. If one becomes ready, poll() has something to do.
  virtual void watch(std::vector<pollfd> &descriptors) const = 0;
  [[nodiscard]] virtual Error why_lost(uint32_t peer) const = 0;
  /// Says whether it reads payloads in NearLink::device_outgoing, and brings them into device_incoming where it can.
  /// The error says why it does neither.
  [[nodiscard]] virtual Result<void> takes_device_memory() const {
    return Error{RONDO_ERROR_UNSUPPORTED, std::string(name()) + " copies payloads by the host, which does not reach "
                                                                "the memory of a device"};
  }
};

}  // namespace rondo::net
