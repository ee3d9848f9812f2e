// SPDX-License-Identifier: Apache-2.0
// What an executor needs of the other ranks besides connections: to read a payload that was exported by reference, to
// wake a rank that sleeps, and to sleep itself. Implemented by the transport that made the connections.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/proto/connection.h"

namespace rondo {

class PeerAccess {
 public:
  virtual ~PeerAccess() = default;

  /// The payload of `header`, which `peer` exported, where this rank can read it until it releases the slot; or null.
  /// `scratch` has room for header.bytes and is used where the payload must be fetched.
  [[nodiscard]] virtual const std::byte *import_payload(uint32_t peer, const SlotHeader &header,
                                                        std::byte *scratch) = 0;

  /// Returns errno where the latest import_payload() returned null since this rank had no descriptor or no room in its
  /// address space left; else 0.
  [[nodiscard]] virtual int own_shortage() const { return 0; }

  /// After a sync store for `peer`: wakes it if it sleeps.
  virtual void wake(uint32_t peer) = 0;

  /// Announces that this rank will sleep; look at every flag once more before sleep(). Returns a ticket.
  [[nodiscard]] virtual uint32_t prepare_sleep() = 0;
  /// Sleeps until woken since prepare_sleep(), or timeout_ns.
  virtual void sleep(uint32_t ticket, uint64_t timeout_ns) = 0;
  virtual void cancel_sleep() = 0;

  /// Notes the processor that this rank waits on. Returns true if a peer of this host last waited on the same one.
  [[nodiscard]] virtual bool shares_processor() { return false; }

  /// A round of what moves links that do not move by themselves: those over a network. True: something moved.
  virtual bool progress() { return false; }
};

}  // namespace rondo
