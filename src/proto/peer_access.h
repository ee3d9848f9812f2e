// SPDX-License-Identifier: Apache-2.0
// An executor uses this interface to read payloads that another rank exported by reference, to wake a rank that sleeps,
// and to sleep itself. The transport that made the connections implements it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/proto/connection.h"

namespace rondo {

class PeerAccess {
 public:
  virtual ~PeerAccess() = default;

  /// Returns the payload of `header`, which `peer` exported, as memory that this rank can read until it releases the
  /// slot. Returns null if that fails. A payload that must be fetched goes to `scratch`, which holds header.bytes.
  [[nodiscard]] virtual const std::byte *import_payload(uint32_t peer, const SlotHeader &header,
                                                        std::byte *scratch) = 0;

  /// Returns why the latest import_payload() returned null: errno if this rank had no descriptors or no address space
  /// left, otherwise 0.
  [[nodiscard]] virtual int own_shortage() const { return 0; }

  /// Wakes `peer` if it sleeps. Call it after a sync store that `peer` waits for.
  virtual void wake(uint32_t peer) = 0;

  /// Announces that this rank will sleep. Before sleep(), the caller must check every flag once more. Returns a ticket.
  [[nodiscard]] virtual uint32_t prepare_sleep() = 0;
  /// Sleeps until another rank wakes this rank, or for timeout_ns. A wake since prepare_sleep() ends the sleep at once.
  virtual void sleep(uint32_t ticket, uint64_t timeout_ns) = 0;
  virtual void cancel_sleep() = 0;

  /// Notes the processor on which this rank waits. Returns true if a peer of this host last waited on the same one.
  [[nodiscard]] virtual bool shares_processor() { return false; }

  /// Moves data, for one round, on network links that do not move data by themselves. Returns true if data moved.
  virtual bool progress() { return false; }
};

}  // namespace rondo
