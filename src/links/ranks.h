// SPDX-License-Identifier: Apache-2.0
// The ranks of a communicator publish their states to each other by this interface. A state says which operations the
// rank has entered and completed, and whether it is alive. Failures are also published. The functions do not wait.
//
// Threads  One thread at a time calls enter(), in the order of operation numbers. One thread at a time calls complete()
//          and fail(), but not always the thread of enter(). Any thread may call the other functions.
// Lag      Values of ranks on this host are current. Values of other ranks are the latest that arrived: a number may be
//          too low, a record may be missing until a later call, and a death or a failure may be seen late. No value is
//          ever ahead of the rank.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/links/message_boards.h"
#include "src/links/recording.h"

namespace rondo {

/// A note is a few words that a rank publishes to the other ranks outside of its operations. Notes work on a failed
/// communicator, too. src/core decides what the words mean.
struct Note {
  static constexpr size_t word_count = 40;
  uint64_t number = 0;    ///< counts the notes of the rank, from 1; 0 means none
  uint64_t revision = 0;  ///< grows with each post() of the rank
  std::array<uint64_t, word_count> words{};
};

/// The number of latest notes that each rank keeps.
inline constexpr size_t kept_note_count = 4;

/// The numbers of notes about windows have this bit. Notes about windows never replace other notes.
inline constexpr uint64_t window_note_bit = uint64_t{1} << 63;
/// The number of latest notes about windows that each rank keeps.
inline constexpr size_t kept_window_note_count = 2;

/// The hosts of a communicator report the states of their ranks to each other once in this time, or less often.
inline constexpr uint64_t heartbeat_ns = 200'000'000;

/// A host reports to at most this number of other hosts at a heartbeat. With more hosts, each host reports less often.
inline constexpr size_t few_hosts_max = 64;

/// Returns the time between two reports of a host to the same other host.
[[nodiscard]] constexpr uint64_t report_interval_ns(size_t host_count) {
  const size_t others = std::max<size_t>(host_count, 2) - 1;
  return (others + few_hosts_max - 1) / few_hosts_max * heartbeat_ns;
}

class Ranks {
 public:
  virtual ~Ranks() = default;

  // This rank calls these functions to publish its operations.
  virtual void enter(uint64_t operation, const OperationInfo &what) = 0;
  /// Completes an operation. Data that this rank owes to others must arrive even without another call.
  virtual void complete(uint64_t operation, const OperationCost &cost) = 0;
  /// Ends an operation that this rank has entered and that failed. Only the flight recorder uses it.
  virtual void fail(uint64_t operation) = 0;
  virtual void set_state(RankState state) = 0;

  // These functions read the published values of rank `peer`, which may be this rank.
  /// Returns nothing if the rank has not entered the operation, or its record is overwritten or has not arrived yet.
  [[nodiscard]] virtual std::optional<OperationInfo> entered(uint32_t peer, uint64_t operation) const = 0;
  [[nodiscard]] virtual uint64_t latest_operation(uint32_t peer) const = 0;
  [[nodiscard]] virtual uint64_t completed_operation(uint32_t peer) const = 0;
  [[nodiscard]] virtual RankState state(uint32_t peer) const = 0;

  /// Returns the interface of messages, or null if the links carry no messages.
  [[nodiscard]] virtual MessageBoards *messages() { return nullptr; }

  // A rank publishes notes outside of its operations, also after a failure.
  /// Publishes a note. It replaces an earlier revision of that note, or if there is none, the oldest kept note.
  virtual void post(const Note &) {}
  /// Returns the kept notes of a rank that have arrived here.
  [[nodiscard]] virtual std::vector<Note> notes(uint32_t) const { return {}; }

  /// Returns whether the rank is on this host. If so, all that it publishes is known at once.
  [[nodiscard]] virtual bool is_near(uint32_t) const { return true; }

  // These functions are for failures. The communicator keeps the first failure that a rank raises.
  virtual void raise(const Error &error) = 0;
  [[nodiscard]] virtual bool failed() const = 0;
  /// Returns the failure. Call it after failed() returned true.
  [[nodiscard]] virtual Error failure() const = 0;

  /// Returns the ranks whose processes have ended.
  [[nodiscard]] virtual std::vector<uint32_t> find_dead() const = 0;
  /// Returns whether data that the rank sent before it ended may still arrive.
  [[nodiscard]] virtual bool may_deliver(uint32_t) const { return false; }
  /// Returns text that says how a rank of find_dead() ended. It follows the rank's name.
  [[nodiscard]] virtual std::string how_dead(uint32_t) const { return " has ended"; }
  /// Returns, by rank, a descriptor that becomes readable when the rank's process ends, or -1. This object owns them.
  [[nodiscard]] virtual std::vector<int> process_handles() const { return {}; }
  /// Describes the rank for people: "rank 2 (host example, process 4711)".
  [[nodiscard]] virtual std::string describe_rank(uint32_t peer) const = 0;
};

}  // namespace rondo
