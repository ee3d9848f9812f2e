// SPDX-License-Identifier: Apache-2.0
// This class serves all network links of one rank. It gives the network what the interpreter posted in the near FIFOs,
// and applies the network's events to these FIFOs.
//
// Counters of a link, from first_counter() on:  credited <= sent <= posted (outgoing)
//                                               told <= consumed <= arrived (incoming)
// Ordering  T1 load outgoing sequence, sync   pairs with S3 in SimpleSender::post (simple.h): the payload may be read
//           T2 store outgoing head, sync      pairs with S1 in SimpleSender::can_send: the slot may be written again
//           T3 store incoming sequence, sync  pairs with S4 in SimpleReceiver::can_receive; by SimpleSender::post
//           T4 load incoming head, sync       pairs with S6 in SimpleReceiver::release
//           A payload in memory of a device: RdmaMemory::flush() lies between the network's completion and T3. The
//           reader is a kernel of that device.
// A receiver sends credit once two or more slots are consumed, so that a small message does not cost a message of
// credit. A message in the other direction carries the credit along. If a sender has no free slot and nothing else
// moves, the receiver sends credit for a single slot, too. Without that, schedules could deadlock: a chunk may take
// slot_count - 1 slots, so only one slot may be missing for the next step. A put ends once it is credited, so the
// receiver of puts sends credit for each slot.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/proto/simple.h"
#include "transports/net.h"
#include "transports/net/far_windows.h"

namespace rondo::net {

class Progress {
 public:
  /// `links` are in the order in which `network` numbers them, and in the order of LinkUse. If `device` is set, links
  /// have slots in its memory. `windows` takes what arrives on links of puts, if there are any.
  Progress(const std::vector<NearLink> &links, std::unique_ptr<Network> network,
           std::shared_ptr<const RdmaMemory> device = nullptr, FarWindows *windows = nullptr);
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;
  ~Progress();

  /// Serves the links of blocks from now on. Before this call they cost nothing in a round.
  void open_blocks() { open(block_end_); }
  /// Serves the links of blocks and the links of messages from now on.
  void open_messages() { open(message_end_); }
  /// Serves all links from now on.
  void open_puts() { open(links_.size()); }
  /// Makes one round over the links. Returns true if something moved. Only one thread at a time calls it.
  bool step();
  /// Says whether everything posted and consumed so far leaves without further calls.
  [[nodiscard]] bool flushed() const;
  /// Says whether the network has got everything, and its Network::delivered() holds.
  [[nodiscard]] bool delivered() const;
  /// Appends the descriptors to sleep on; see Network::watch().
  void watch(std::vector<pollfd> &descriptors) const;
  /// Returns the peers from which nothing arrives any more, in the order in which they were lost.
  [[nodiscard]] const std::vector<uint32_t> &lost() const { return lost_; }
  [[nodiscard]] Error why_lost(uint32_t peer) const;
  /// Returns the first rank that `fits` accepts and that has a served link that is not lost.
  template <class Fits>
  [[nodiscard]] std::optional<uint32_t> find_reached(const Fits &fits) const {
    for (const Link &link : served())
      if (fits(link.ends.peer) && std::ranges::find(lost_, link.ends.peer) == lost_.end()) return link.ends.peer;
    return std::nullopt;
  }
  [[nodiscard]] const char *network_name() const { return network_->name(); }
  /// Returns a failure of this rank alone: its device did not flush arrived data, so its kernels never see the data.
  /// The peers are not affected, and do not count as lost.
  [[nodiscard]] const std::optional<Error> &failure() const { return failure_; }

 private:
  static constexpr size_t events_per_step = 32;

  struct Link {
    NearLink ends;
    uint64_t sent = 0;
    uint64_t credited = 0;
    uint64_t told = 0;
    uint64_t arrived = 0;
    SimpleSender publisher;  ///< posts to the incoming FIFO
    bool broken = false;     ///< a payload cannot be read, so nothing that arrives later is published
    [[nodiscard]] bool sender_waits() const { return arrived - told >= ends.incoming.geometry.slot_count; }
    /// Returns for how many consumed slots credit may stay unsent while the sender has a free slot.
    [[nodiscard]] uint64_t untold_max() const { return ends.use == LinkUse::puts ? 0 : 1; }
  };

  /// Calls the network. If the links use a device, the device is made current first.
  template <class Work>
  void in_context(const Work &work) const;
  void open(size_t served_count);
  bool step_links();
  void make_readable(std::span<const Event> events);
  bool send_posted(uint32_t index);
  bool tell_consumed(uint32_t index, uint64_t untold_max);
  void take(const Event &event);
  void take_put(Link &link, const Event &event);

  /// Returns the links that are served now.
  [[nodiscard]] std::span<const Link> served() const { return std::span(links_).first(served_count_); }

  std::vector<Link> links_;
  size_t served_count_ = 0;  ///< number of links served now, the first ones
  size_t block_end_ = 0;     ///< index after the last link of blocks
  size_t message_end_ = 0;   ///< index after the last link of messages
  FarWindows *const windows_;
  const std::shared_ptr<const RdmaMemory> device_;
  std::unique_ptr<Network> network_;
  std::array<Event, events_per_step> events_;  ///< events of one step; a local array would be cleared each time
  std::vector<uint32_t> lost_;
  std::optional<Error> failure_;  ///< error of the first flush that failed
};

}  // namespace rondo::net
