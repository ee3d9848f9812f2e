// SPDX-License-Identifier: Apache-2.0
// Lets an executor read a payload that another rank exported by reference, wake a rank that sleeps, and sleep itself.
// The transport that made the connections implements it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/proto/connection.h"

namespace rondo {

class PeerAccess {
 public:
  virtual ~PeerAccess() = default;

  /// Returns the payload of `header`, which `peer` exported, in memory that this rank can read until it releases the
  /// slot, or null. `scratch` has room for header.bytes and is used if the payload must be fetched.
  [[nodiscard]] virtual const std::byte *import_payload(uint32_t peer, const SlotHeader &header,
                                                        std::byte *scratch) = 0;

  /// Returns errno if the latest import_payload() returned null because this rank had no descriptor or no room in its
  /// address space left. Otherwise returns 0.
  [[nodiscard]] virtual int own_shortage() const { return 0; }

  /// Wakes `peer` if it sleeps. Call it after a sync store for `peer`.
  virtual void wake(uint32_t peer) = 0;

  /// Announces that this rank will sleep. The caller must check every flag once more before sleep(). Returns a ticket.
  [[nodiscard]] virtual uint32_t prepare_sleep() = 0;
  /// Sleeps until woken since prepare_sleep(), or timeout_ns.
  virtual void sleep(uint32_t ticket, uint64_t timeout_ns) = 0;
  virtual void cancel_sleep() = 0;

  /// Notes the processor that this rank waits on. Returns true if a peer of this host last waited on the same one.
  [[nodiscard]] virtual bool shares_processor() { return false; }

  /// Moves links that do not move by themselves, over a network, for one round. Returns true if something moved.
  virtual bool progress() { return false; }
};

}  // namespace rondo
