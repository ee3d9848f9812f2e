// SPDX-License-Identifier: Apache-2.0
// What a transport is to the core: it connects the ranks of a communicator, and lets each see what the others do. A new
// transport is a directory with an implementation, and a line in src/core/registry.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/proto/connection.h"
#include "src/proto/exchange.h"
#include "src/proto/peer_access.h"
#include "transports/recording.h"

namespace rondo {

/// Calls of one rank; one executing thread at a time, but for the functions marked "any thread".
class Transport {
 public:
  virtual ~Transport() = default;
  [[nodiscard]] virtual const char *name() const = 0;

  // Connections. Channels and geometry are those of the request that made the transport.
  [[nodiscard]] virtual ConnectionGeometry geometry() const = 0;
  [[nodiscard]] virtual uint32_t channel_count() const = 0;
  [[nodiscard]] virtual ConnectionView outgoing(uint32_t channel, uint32_t peer) const = 0;
  [[nodiscard]] virtual ConnectionView incoming(uint32_t channel, uint32_t peer) const = 0;
  /// What all ranks map for the protocol direct; rank_count 0 where there is none.
  [[nodiscard]] virtual ExchangeView exchange() const = 0;
  /// Bits PayloadKind: loans of this rank that `peer` can read.
  [[nodiscard]] virtual uint32_t accepted_kinds(uint32_t peer) const = 0;
  [[nodiscard]] virtual PeerAccess &peers() = 0;
  /// True: links move only while PeerAccess::progress() is called; who waits calls it.
  [[nodiscard]] virtual bool needs_progress() const { return false; }

  // What the ranks do.
  virtual void enter(uint64_t operation, const Entered &what) = 0;
  virtual void complete(uint64_t operation) = 0;
  /// Ends an operation that this rank had entered; for the flight recorder alone.
  virtual void fail(uint64_t operation) = 0;
  /// Around an executor's run. true is a sync store where wait_for_borrowers() may wait for it: look for a failure
  /// after it.
  virtual void set_running(bool running) = 0;
  /// After a failure: waits, for a second at most, until no thread of this process reads what this rank has lent.
  virtual void wait_for_borrowers() const = 0;
  virtual void set_state(RankState state) = 0;
  [[nodiscard]] virtual std::optional<Entered> entered(uint32_t peer, uint64_t operation) const = 0;
  [[nodiscard]] virtual uint64_t latest_operation(uint32_t peer) const = 0;
  [[nodiscard]] virtual uint64_t completed_operation(uint32_t peer) const = 0;
  [[nodiscard]] virtual RankState state(uint32_t peer) const = 0;

  // Failure: one for the communicator, the first. Any thread.
  virtual void raise(const Error &error) = 0;
  [[nodiscard]] virtual bool failed() const = 0;
  [[nodiscard]] virtual Error failure() const = 0;
  /// The ranks whose processes have ended.
  [[nodiscard]] virtual std::vector<uint32_t> find_dead() const = 0;
  /// Of a rank that find_dead() names, behind its description: what is known of its end.
  [[nodiscard]] virtual std::string how_dead(uint32_t) const { return " has ended"; }
  /// For people: "rank 2 (host example, process 4711)".
  [[nodiscard]] virtual std::string describe_rank(uint32_t peer) const = 0;

  // The flight recorder. Any thread.
  [[nodiscard]] virtual std::unique_ptr<Recording> recording() const = 0;
  /// True for one rank of all: it writes the communicator's recording to a file, and calls end_dump(true).
  [[nodiscard]] virtual bool claim_dump() = 0;
  /// false: the claim is open again.
  virtual void end_dump(bool finished) = 0;

  /// Bytes of memory that the ranks of this host share for the communicator: reserved.
  [[nodiscard]] virtual uint64_t shared_bytes() const = 0;
  /// Of these, the pages that were touched so far.
  [[nodiscard]] virtual Result<uint64_t> used_bytes() const = 0;
};

}  // namespace rondo
