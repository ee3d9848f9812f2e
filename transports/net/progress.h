// SPDX-License-Identifier: Apache-2.0
// Serves all network links of one rank: hands what the interpreter posted in its near FIFOs to the network, and stores
// locally what the network's events say.
//
// Counters of a link, from first_counter() on:  credited <= sent <= posted (outgoing)
//                                               told <= consumed <= arrived (incoming)
// Ordering  P1 load outgoing sequence, sync   pairs with S3 in SimpleSender::post (simple.h): the payload may be read
//           P2 store outgoing head, sync      pairs with S1 in SimpleSender::can_send: the slot may be written again
//           P3 store incoming sequence, sync  pairs with R1 in SimpleReceiver::can_receive; by SimpleSender::post
//           P4 load incoming head, sync       pairs with R3 in SimpleReceiver::release
//           A payload in memory of a device: RdmaMemory::flush() lies between the network's completion and P3. The
//           reader is a kernel of that device.
// A receiver sends credit when two slots or more are consumed, so that small messages do not pay for a message of its
// own. A message in the other direction takes the credit along. A sender that has no free slot gets credit for a single
// one when nothing else moves. Builders need the slot that a chunk of slot_count - 1 leaves free.
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

namespace rondo::net {

class Progress {
 public:
  /// `links` in the order that `network` counts them; links of messages are the last. `device`: links have slots in it,
  /// too.
  Progress(const std::vector<NearLink> &links, std::unique_ptr<Network> network,
           std::shared_ptr<const RdmaMemory> device = nullptr);
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;
  ~Progress();

  /// Serves the links of messages, too. Until this call a round costs nothing for them.
  void open_messages();
  /// Makes one round. Returns true if something moved. One thread at a time.
  bool step();
  /// Says whether everything that was posted and consumed leaves without further calls.
  [[nodiscard]] bool flushed() const;
  /// Says whether everything has been given to the network, and Network::delivered().
  [[nodiscard]] bool delivered() const;
  /// Appends the descriptors to sleep on; see Network::watch().
  void watch(std::vector<pollfd> &descriptors) const;
  /// Returns the peers from which nothing arrives any more, in the order in which they were lost.
  [[nodiscard]] const std::vector<uint32_t> &lost() const { return lost_; }
  [[nodiscard]] Error why_lost(uint32_t peer) const;
  /// Returns the first rank that `fits` to which there is a link that is served and not lost.
  template <class Fits>
  [[nodiscard]] std::optional<uint32_t> find_reached(const Fits &fits) const {
    for (const Link &link : served())
      if (fits(link.ends.peer) && std::ranges::find(lost_, link.ends.peer) == lost_.end()) return link.ends.peer;
    return std::nullopt;
  }
  [[nodiscard]] const char *network_name() const { return network_->name(); }
  /// Returns a failure that only this rank has: its device did not flush data that had arrived, so its kernels never
  /// see the data. The peers are not affected, and are not lost.
  [[nodiscard]] const std::optional<Error> &failure() const { return failure_; }

 private:
  static constexpr size_t events_per_step = 32;

  struct Link {
    NearLink ends;
    uint64_t sent = 0;
    uint64_t credited = 0;
    uint64_t told = 0;
    uint64_t arrived = 0;
    SimpleSender publisher;  ///< of the incoming FIFO
    bool broken = false;     ///< a payload cannot be read: nothing that arrived after it is published
    [[nodiscard]] bool sender_waits() const { return arrived - told >= ends.incoming.geometry.slot_count; }
  };

  /// Every call of the network: with the device current, where there is one.
  template <class Work>
  void in_context(const Work &work) const;
  bool step_links();
  void make_readable(std::span<const Event> events);
  bool send_posted(uint32_t index);
  bool tell_consumed(uint32_t index, uint64_t untold_max);
  void take(const Event &event);

  /// Returns the links that are served now.
  [[nodiscard]] std::span<const Link> served() const { return std::span(links_).first(served_count_); }

  std::vector<Link> links_;
  size_t served_count_ = 0;  ///< links of messages are the last
  const std::shared_ptr<const RdmaMemory> device_;
  std::unique_ptr<Network> network_;
  std::array<Event, events_per_step> events_;  ///< of one step; kept, since to make them anew clears a kilobyte
  std::vector<uint32_t> lost_;
  std::optional<Error> failure_;  ///< the first flush that failed
};

}  // namespace rondo::net
