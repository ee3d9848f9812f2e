// SPDX-License-Identifier: Apache-2.0
// This interface publishes the state of the ranks of a communicator to each other. It has what each rank has entered
// and completed, whether it is alive, and the one failure of the communicator.
//
// Threads  One thread at a time calls enter(), in the order of operation numbers. One thread at a time calls complete()
//          and fail(); it may differ from the one that enters later operations. Any thread calls everything else.
// Lag      Ranks of this host have none. Ranks of other hosts are as they have last reported. A number may be too low,
//          a record may be missing until a later call, and a death or a failure may be seen late. Nothing is ever
//          ahead of the rank. Every function returns at once.
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

  // This rank publishes what it does.
  virtual void enter(uint64_t operation, const OperationInfo &what) = 0;
  /// Completes an operation. The data that this rank owes to others reach them without another call of this rank.
  virtual void complete(uint64_t operation, const OperationCost &cost) = 0;
  /// Ends an operation that this rank had entered. Only the flight recorder uses it.
  virtual void fail(uint64_t operation) = 0;
  virtual void set_state(RankState state) = 0;

  // Reads what a rank, which may be this one, has published.
  /// Returns none if it has not entered the operation, its record is overwritten, or the answer has not arrived yet.
  [[nodiscard]] virtual std::optional<OperationInfo> entered(uint32_t peer, uint64_t operation) const = 0;
  [[nodiscard]] virtual uint64_t latest_operation(uint32_t peer) const = 0;
  [[nodiscard]] virtual uint64_t completed_operation(uint32_t peer) const = 0;
  [[nodiscard]] virtual RankState state(uint32_t peer) const = 0;

  /// Returns the boards of messages, or null if links carry none.
  [[nodiscard]] virtual MessageBoards *messages() { return nullptr; }

  // Notes: what a rank publishes outside of its operations, also after a failure.
  /// Publishes the note in place of its earlier revision, or of the note kept_note_count before it.
  virtual void post(const Note &) {}
  /// Returns the notes of a rank that are kept, and known by now.
  [[nodiscard]] virtual std::vector<Note> notes(uint32_t) const { return {}; }

  /// Returns whether it is on this host, so that what it has published is known without a delay.
  [[nodiscard]] virtual bool is_near(uint32_t) const { return true; }

  // Failure: the communicator keeps the first that is raised.
  virtual void raise(const Error &error) = 0;
  [[nodiscard]] virtual bool failed() const = 0;
  /// Returns the failure. Call it after failed() returned true.
  [[nodiscard]] virtual Error failure() const = 0;

  /// Returns the ranks whose processes have ended.
  [[nodiscard]] virtual std::vector<uint32_t> find_dead() const = 0;
  /// Returns whether something that the rank sent before it ended may still arrive.
  [[nodiscard]] virtual bool may_deliver(uint32_t) const { return false; }
  /// Describes the end of a rank that find_dead() names; the text follows its description.
  [[nodiscard]] virtual std::string how_dead(uint32_t) const { return " has ended"; }
  /// Returns, by rank, a descriptor that becomes readable when the process has ended, or -1. Valid as long as this.
  [[nodiscard]] virtual std::vector<int> process_handles() const { return {}; }
  /// Describes the rank for people: "rank 2 (host example, process 4711)".
  [[nodiscard]] virtual std::string describe_rank(uint32_t peer) const = 0;
};

}  // namespace rondo
