// SPDX-License-Identifier: Apache-2.0
// The ranks of a communicator publish their states to each other by this interface. A state says which operations the
// rank has entered and completed, and whether it is alive. Failures are shown, too. No function waits.
//
// Threads  One thread at a time calls enter(), in the order of operation numbers. One thread at a time calls complete()
//          and fail(), which may be another thread. Any thread may call the other functions.
// Lag      Values of ranks on this host are current. Values of other ranks are the latest that arrived: a number may be
//          too low, a record may be missing until a later call, and a death or a failure may be seen late. No value is
//          ever ahead of the rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/links/message_boards.h"
#include "src/links/recording.h"
#include "src/links/notes.h"

namespace rondo {

class Ranks {
 public:
  virtual ~Ranks() = default;

  // This rank calls these functions to publish what it does.
  virtual void enter(uint64_t operation, const OperationInfo &what) = 0;
  /// Completes an operation. Data that this rank owes to others must arrive even if this rank calls nothing more.
  virtual void complete(uint64_t operation, const OperationCost &cost) = 0;
  /// Ends an operation that this rank has entered and that failed. Only the flight recorder uses it.
  virtual void fail(uint64_t operation) = 0;
  virtual void set_state(RankState state) = 0;

  // These functions read what rank `peer` has published; `peer` may be this rank.
  /// Returns none if the rank has not entered the operation, or its record is overwritten or has not arrived here yet.
  [[nodiscard]] virtual std::optional<OperationInfo> entered(uint32_t peer, uint64_t operation) const = 0;
  [[nodiscard]] virtual uint64_t latest_operation(uint32_t peer) const = 0;
  [[nodiscard]] virtual uint64_t completed_operation(uint32_t peer) const = 0;
  [[nodiscard]] virtual RankState state(uint32_t peer) const = 0;

  /// Returns the interface of messages, or null if the links carry no messages.
  [[nodiscard]] virtual MessageBoards *messages() { return nullptr; }

  // A rank publishes notes outside of its operations, also after a failure.
  /// Publishes a note. It replaces an earlier revision of that note, or else the oldest of kept_note_count notes.
  virtual void post(const Note &) {}
  /// Returns the kept notes of a rank that have arrived here.
  [[nodiscard]] virtual std::vector<Note> notes(uint32_t) const { return {}; }

  /// Returns whether the rank is on this host. Then everything that it publishes is known without delay.
  [[nodiscard]] virtual bool is_near(uint32_t) const { return true; }

  // Failure: the communicator keeps the first failure that a rank raises.
  virtual void raise(const Error &error) = 0;
  [[nodiscard]] virtual bool failed() const = 0;
  /// Returns the failure. Call it after failed() returned true.
  [[nodiscard]] virtual Error failure() const = 0;

  /// Returns the ranks whose processes have ended.
  [[nodiscard]] virtual std::vector<uint32_t> find_dead() const = 0;
  /// Returns whether data that the rank sent before it ended may still arrive.
  [[nodiscard]] virtual bool may_deliver(uint32_t) const { return false; }
  /// Describes how a rank of find_dead() ended, as a predicate that follows the rank's name.
  [[nodiscard]] virtual std::string how_dead(uint32_t) const { return " has ended"; }
  /// Returns, by rank, a descriptor that becomes readable when the rank's process ends, or -1. This object owns it.
  [[nodiscard]] virtual std::vector<int> process_handles() const { return {}; }
  /// Describes the rank for people: "rank 2 (host example, process 4711)".
  [[nodiscard]] virtual std::string describe_rank(uint32_t peer) const = 0;
};

}  // namespace rondo
