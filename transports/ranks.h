// SPDX-License-Identifier: Apache-2.0
// What the ranks of a communicator know of each other: what each has entered and completed, whether it is still there,
// and the one failure of the communicator.
//
// Threads  enter(): one thread at a time, in the order of operation numbers. complete(), fail(): one thread at a time,
//          which may be another than the one that enters later operations. Everything else: any thread.
// Lag      Ranks of this host: none. Ranks of other hosts: what they have told, perhaps some time ago. A number may be
//          too low, a record may be missing until a later look, a death or a failure may be seen late; nothing is ever
//          ahead of the rank. Every answer comes at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "transports/messages.h"
#include "transports/recording.h"

namespace rondo {

class Ranks {
 public:
  virtual ~Ranks() = default;

  // This rank publishes what it does.
  virtual void enter(uint64_t operation, const OperationInfo &what) = 0;
  /// What this rank owes to the others for it reaches them without another call of this rank.
  virtual void complete(uint64_t operation, const OperationCost &cost) = 0;
  /// Ends an operation that this rank had entered; for the flight recorder alone.
  virtual void fail(uint64_t operation) = 0;
  virtual void set_state(RankState state) = 0;

  // What a rank, this one included, has published.
  /// None: it has not entered the operation, its record is overwritten, or the answer is not here yet.
  [[nodiscard]] virtual std::optional<OperationInfo> entered(uint32_t peer, uint64_t operation) const = 0;
  [[nodiscard]] virtual uint64_t latest_operation(uint32_t peer) const = 0;
  [[nodiscard]] virtual uint64_t completed_operation(uint32_t peer) const = 0;
  [[nodiscard]] virtual RankState state(uint32_t peer) const = 0;

  /// What the ranks know of each other's messages; null where links carry none.
  [[nodiscard]] virtual MessageBoards *messages() { return nullptr; }

  /// It is on this host: what it has published is known without a delay.
  [[nodiscard]] virtual bool is_near(uint32_t) const { return true; }

  // Failure: one for the communicator, the first that is raised; it stays.
  virtual void raise(const Error &error) = 0;
  [[nodiscard]] virtual bool failed() const = 0;
  /// After failed().
  [[nodiscard]] virtual Error failure() const = 0;

  /// The ranks whose processes have ended.
  [[nodiscard]] virtual std::vector<uint32_t> find_dead() const = 0;
  /// Returns whether something that the rank sent before it ended may still arrive.
  [[nodiscard]] virtual bool may_deliver(uint32_t) const { return false; }
  /// Of a rank that find_dead() names, behind its description: what is known of its end.
  [[nodiscard]] virtual std::string how_dead(uint32_t) const { return " has ended"; }
  /// By rank: a descriptor that becomes readable when the process has ended, valid as long as this; -1: there is none.
  [[nodiscard]] virtual std::vector<int> process_handles() const { return {}; }
  /// Describes the rank for people: "rank 2 (host example, process 4711)".
  [[nodiscard]] virtual std::string describe_rank(uint32_t peer) const = 0;
};

}  // namespace rondo
