// SPDX-License-Identifier: Apache-2.0
// The links of one rank: which ranks its executor can reach, and how. A link is a channel and a peer, in one direction.
// Its view points into memory of this process, whether the peer is a thread, a process or on another host.
//
// Threads  outgoing(), incoming(), exchange(), readable_kinds() and what is constant: any thread.
//          set_running() and what peers() returns: the executing thread, of which there is one at a time.
//          wait_for_readers(): any thread.
// Views never lag, so executors rely on them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "src/base/result.h"
#include "src/proto/connection.h"
#include "src/proto/exchange.h"
#include "src/proto/peer_access.h"
#include "src/links/rdma_memory.h"

namespace rondo {

/// The FIFOs of all links to other hosts on this side, in one piece, since a network device has to register them.
struct NetworkMemory {
  std::shared_ptr<const void> owner;  ///< its holder may use the memory when the links are gone
  std::span<std::byte> bytes;
  std::shared_ptr<const RdmaMemory> device;  ///< likewise, with slots for payloads; may be null
  std::shared_ptr<const void> message_owner = nullptr;  ///< likewise
  std::span<std::byte> message_bytes{};                 ///< of the links for messages; may be empty
};

class Links {
 public:
  virtual ~Links() = default;

  /// Returns the least geometry of all links. It and the number of channels are constant.
  [[nodiscard]] virtual ConnectionGeometry geometry() const = 0;
  [[nodiscard]] virtual uint32_t channel_count() const = 0;
  /// Returns the view of a link, valid as long as the links. The peer may be this rank: the loop-back. A view has no
  /// memory (base is null) if no schedule that can be chosen has a link with the peer (src/plan/edges.h).
  [[nodiscard]] virtual ConnectionView outgoing(uint32_t channel, uint32_t peer) const = 0;
  [[nodiscard]] virtual ConnectionView incoming(uint32_t channel, uint32_t peer) const = 0;
  /// Returns whether connections for messages exist (src/engine/run_transfers.h).
  [[nodiscard]] virtual bool carries_messages() const { return false; }
  /// Makes the next two functions usable, before the first message. Any thread.
  virtual Result<void> open_messages() { return {}; }
  [[nodiscard]] virtual ConnectionView outgoing_messages(uint32_t) const { return {}; }
  [[nodiscard]] virtual ConnectionView incoming_messages(uint32_t) const { return {}; }
  /// Returns where, in network_memory().device, a device writes payloads for outgoing(), or null for the slots there.
  [[nodiscard]] virtual std::byte *device_slots(uint32_t, uint32_t) const { return nullptr; }
  /// Returns the same for outgoing_messages().
  [[nodiscard]] virtual std::byte *device_message_slots(uint32_t) const { return nullptr; }
  /// Returns what all ranks map for the kernel load_store. Its rank_count is 0 if the ranks share no memory.
  [[nodiscard]] virtual ExchangeView exchange() const = 0;

  /// Returns which exported buffers of this rank `peer` can read in place, as bits PayloadKind.
  [[nodiscard]] virtual uint32_t readable_kinds(uint32_t peer) const = 0;
  /// Reads what peers have exported, wakes them, and lets this rank sleep.
  [[nodiscard]] virtual PeerAccess &peers() = 0;
  /// Returns whether links move only during PeerAccess::progress(), which a waiting thread then calls.
  [[nodiscard]] virtual bool needs_progress() const { return false; }
  /// Returns the network's memory, empty if all ranks are on this host.
  [[nodiscard]] virtual NetworkMemory network_memory() const { return {}; }

  /// Marks the begin or the end of a run, in which this rank may read exported buffers of its peers. If
  /// wait_for_readers() may wait for it, set_running(true) is a sync store. Check for a failure after it.
  virtual void set_running(bool running) = 0;
  /// Waits after a failure, for a second at most, until no thread of this process reads what this rank has exported.
  virtual void wait_for_readers() const = 0;

  /// Returns the bytes reserved for memory that the ranks of this host share for the communicator, with boards and
  /// records.
  [[nodiscard]] virtual uint64_t shared_bytes() const = 0;
  /// Returns the bytes of these pages that were touched so far.
  [[nodiscard]] virtual Result<uint64_t> used_bytes() const = 0;
};

}  // namespace rondo
