// SPDX-License-Identifier: Apache-2.0
// The ranks of a host share what they know of the ranks of other hosts. They all map this memory, and they all hold the
// descriptors of the control connections. So a connection between two hosts lasts until the last rank of one of
// them has left. Any rank can serve it when the rank that did is gone or stopped.
//
// Layout   ControlHeader | RemoteHost[host_count] | RemoteRank[rank_count]     host and rank: as in the whole group
// Lock     `lock` of the header guards all that no comment calls readable without it. Its word names the holder.
//          Another rank takes the lock over when the kernel says that the holder's process has ended, and never before.
//          A holder that is stopped or has no core may go on at any time: two would write to one connection, and cells
//          would be torn.
//          A rank that is stopped in the microseconds in which it holds the lock keeps its host from hearing and
//          reporting until it goes on. The last rank to leave may hold it for 0.5 s, while a connection is full or
//          acknowledgements are missing. Its host is late then, as the rank is, and its kernel acknowledges.
//          When a holder ends, one cell that had arrived may be lost, or one may be sent twice. Hosts repeat what a
//          cell says at the next heartbeat.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/unique_handle.h"
#include "src/proto/connection.h"
#include "src/links/message_boards.h"
#include "src/links/notes.h"
#include "transports/net/overlay.h"
#include "transports/net/tcp_state.h"
#include "src/links/recording.h"

namespace rondo::net {

/// Control connections carry nothing but cells of this size, so that a rank which takes a connection over finds
/// the beginning of the next.
inline constexpr size_t cell_bytes = 1024;

inline constexpr uint64_t heartbeat_ns = 200'000'000;

struct ControlHeader {
  alignas(cache_line_bytes) uint64_t lock = 0;
  uint64_t server = 0;       ///< 1 + the host's rank that served last; readable without the lock, and so is the next
  uint64_t served_ns = 0;    ///< when it did
  uint64_t next_beat_ns = 0;
  uint64_t failure_told = 0;  ///< how often the failure was sent to the other hosts; readable without the lock
  uint64_t tell = 0;          ///< 1 if the ranks' state is to be sent soon; readable without the lock
  uint64_t clock_asked_ns = 0;     ///< 0: no answer is due
  uint64_t clock_measured_ns = 0;  ///< 0: never
  ClockOffset clock;               ///< the best so far
  // In a ring of hosts (overlay.h):
  uint64_t due = 0;           ///< a bit for each neighbour that updates are to be sent to now
  uint64_t downs = 0;         ///< how many ends of connections are known to be down
  uint64_t gone_ranks = 0;    ///< how many ranks of other hosts are known to have left or ended
  uint64_t down_reason = 0;   ///< of the last: 1 + errno
  uint64_t next_sweep_ns = 0;  ///< when all updates that wait are due to all neighbours
  uint64_t asked_ns = 0;      ///< the last questions to other hosts: when the first of them was asked
  uint64_t asked_count = 0;
};

struct RemoteHost {
  alignas(cache_line_bytes) uint64_t lost = 0;  ///< 1: nothing comes any more
  uint64_t sent_unheard = 0;  ///< cells that were sent to it since the last one came
  uint64_t farewell_told = 0;  ///< cells sent to it of how this host's ranks have left or ended, when all had
  uint64_t send_error = 0;  ///< nothing can be sent any more; its last messages must still be read
  SilenceWatch silence;      ///< checks at each heartbeat
  uint64_t unsent_bytes = 0;  ///< as many bytes at the end of `unsent` are still to be sent
  std::array<std::byte, cell_bytes> unsent{};
  // In a ring of hosts, this host included:
  uint64_t down_due = 0;  ///< a bit for each neighbour of this rank's host that has yet to learn of `down`
  std::array<uint64_t, ring_neighbours_max> down{};  ///< by neighbour: 1 + errno of a connection reported as down
};

struct RemoteRecord {
  uint64_t operation = 0;
  OperationInfo what;
};

/// The latest question of a rank of this host about its messages with a rank of another one, and the answer.
struct RemotePair {
  uint64_t with = 0;        ///< 1 + the rank that asked, or 0
  uint64_t question = 0;    ///< number of a message << 1, and 1 if the other rank sends it
  uint64_t asked_ns = 0;
  uint64_t answered = 0;    ///< 1: what follows is the answer
  PairCounts counts;
  BatchCounts batches;
  uint64_t is_known = 0;    ///< 1: type and bytes are
  uint64_t type = 0;
  uint64_t bytes = 0;
};

struct RemoteRank {
  static constexpr size_t record_count = 16, pair_count = 8;
  // Readable without the lock:
  alignas(cache_line_bytes) uint64_t state = 0;  ///< RankState
  uint64_t entered = 0;
  uint64_t completed = 0;
  uint64_t ended = 0;  ///< its process has ended, or its host is lost: 1 + errno, or 1
  // With it:
  uint64_t told = 0;       ///< the furthest state in which it was reported to be, as on the wire
  uint64_t due_now = 0;    ///< in a ring: a bit for each neighbour that must learn of this rank
  uint64_t due_later = 0;  ///< the same, at a later heartbeat
  uint64_t asked_ns = 0;
  uint64_t asked_count = 0;  ///< how often since it answered
  std::array<RemoteRecord, record_count> records{};
  uint64_t notes_asked_ns = 0;
  std::array<Note, kept_note_count> notes{};  ///< note n at n % kept_note_count
  std::array<RemotePair, pair_count> pairs{};  ///< at the number of the asking rank on its host, modulo their number
};

class ControlMemory {
 public:
  /// Creates a file without a name, for `host_count` hosts and `rank_count` ranks.
  [[nodiscard]] static Result<FileDescriptor> create(uint32_t host_count, uint32_t rank_count);
  [[nodiscard]] static Result<ControlMemory> map(int descriptor, uint32_t host_count, uint32_t rank_count);

  [[nodiscard]] ControlHeader &header() const { return *reinterpret_cast<ControlHeader *>(mapping_.get().address); }
  [[nodiscard]] RemoteHost &host(uint32_t host) const;
  [[nodiscard]] RemoteRank &rank(uint32_t rank) const;

 private:
  Mapping mapping_;
  uint32_t host_count_ = 0;
};

inline constexpr uint64_t tell_patience_ns = 500'000'000;  // of a rank that has something to say

/// Holds the lock if held() says so. Gives it back in the end.
class ControlLock {
 public:
  /// Tries until it has the lock, for `patience_ns`; once if that is 0. `index` is the rank's number on its host.
  /// `ended` says, by index, whose processes have ended.
  ControlLock(ControlHeader &header, uint32_t index, uint64_t patience_ns, const std::vector<bool> &ended = {});
  ControlLock(const ControlLock &) = delete;
  ControlLock &operator=(const ControlLock &) = delete;
  ~ControlLock();
  [[nodiscard]] bool held() const { return word_ != 0; }

 private:
  [[nodiscard]] bool take(uint32_t index, const std::vector<bool> &ended);

  ControlHeader &header_;
  uint64_t word_ = 0;  ///< 1 + the number on the host; 0 if not held
};

}  // namespace rondo::net
