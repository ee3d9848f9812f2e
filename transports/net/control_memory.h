// SPDX-License-Identifier: Apache-2.0
// The ranks of a host share what they know about the ranks of other hosts. All of them map this memory and hold the
// descriptors of the control connections. So a connection between two hosts lasts until the last rank of one of the
// hosts has left. If the serving rank has ended or is stopped, any other rank can serve.
//
// Layout   ControlHeader | RemoteHost[host_count] | RemoteRank[rank_count]     host and rank: as in the whole group
// Lock     `lock` of the header guards everything except what comments call readable without it. Its word names the
//          holder. Another rank takes the lock over only if the kernel says that the holder's process has ended. A
//          holder that is stopped or has no core may continue at any time. If its lock had been taken over, two ranks
//          would then write to one connection and mix their cells.
//          If a rank is stopped in the microseconds in which it holds the lock, its host neither reports nor takes
//          reports in until that rank continues. The last rank to leave may hold the lock for 0.5 s, while a connection
//          is full or an acknowledgement is missing. In these cases the other hosts see this host as late, and not as
//          dead, because its kernel still acknowledges.
//          If a holder ends, one received cell may be lost, or one cell may be sent twice. Hosts repeat the content at
//          the next heartbeat.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "src/base/unique_handle.h"
#include "src/links/message_boards.h"
#include "src/links/ranks.h"
#include "src/links/recording.h"
#include "src/proto/connection.h"
#include "transports/net/tcp_state.h"

namespace rondo::net {

/// The size of every cell. All cells have one size, so a rank that takes a connection over finds where the next cell
/// begins.
inline constexpr size_t cell_bytes = 1024;

using rondo::heartbeat_ns;

/// The most hosts of a communicator. Each pair of hosts has a control connection.
inline constexpr uint32_t hosts_max = 1024;

/// Returns the number of hosts. `host_of` is indexed by rank. Hosts are numbered from 0 without a gap.
[[nodiscard]] inline uint32_t host_count_of(const std::vector<uint32_t> &host_of) {
  return *std::ranges::max_element(host_of) + 1;
}

struct ControlHeader {
  alignas(cache_line_bytes) uint64_t lock = 0;
  uint64_t server = 0;       ///< 1 + index of the rank that served last; readable without the lock, like served_ns
  uint64_t served_ns = 0;    ///< when that rank served last, in ns
  uint64_t next_beat_ns = 0;
  uint64_t failure_told = 0;  ///< how often the failure was sent to the other hosts; readable without the lock
  uint64_t tell = 0;          ///< 1 if the ranks' states must be sent soon; readable without the lock
  uint64_t clock_asked_ns = 0;     ///< when the latest question about the clock was asked; 0 if no answer is due
  uint64_t clock_measured_ns = 0;  ///< when `clock` was measured; 0 if never
  ClockOffset clock;               ///< best measurement so far
  uint64_t asked_ns = 0;      ///< when the first of the latest questions to other hosts was asked
  uint64_t asked_count = 0;
  uint64_t beat_count = 0;    ///< heartbeats so far
  uint64_t told_ns = 0;       ///< when the ranks' states were last sent to all hosts at once
  uint64_t puts = 0;          ///< 1 if a rank of some host uses windows or signals; readable without the lock
  uint64_t rests = 0;         ///< 1 if a cell may have been sent to a host in part; readable without the lock
};

struct RemoteHost {
  alignas(cache_line_bytes) uint64_t lost = 0;  ///< 1: nothing arrives from it any more
  uint64_t sent_unheard = 0;  ///< cells sent to it since its last cell arrived
  uint64_t farewell_told = 0;  ///< how many cells with the last states of this host's ranks were sent to it
  uint64_t send_error = 0;  ///< if not 0, nothing can be sent any more; its last cells must still be read
  SilenceWatch silence;      ///< checked at each heartbeat
  uint64_t unsent_bytes = 0;  ///< this many bytes at the end of `unsent` are still to be sent
  std::array<std::byte, cell_bytes> unsent{};
};

struct RemoteRecord {
  uint64_t operation = 0;
  OperationInfo what;
};

/// The latest question of a rank of this host to a rank of another host about messages between them, and the answer.
struct RemotePair {
  uint64_t with = 0;        ///< 1 + the rank that asked, or 0
  uint64_t question = 0;    ///< number of the message << 1; plus 1 if the other rank sends it
  uint64_t asked_ns = 0;
  uint64_t answered = 0;    ///< 1: `report` is the answer
  MessageReport report;
};
static_assert(std::is_trivially_copyable_v<RemotePair>);

/// The latest report on what a rank of another host waits for. A report arrives in several cells.
struct RemoteWaits {
  uint64_t asked_ns = 0;     ///< time of the latest question
  uint64_t arriving_ns = 0;  ///< time of the question that `arriving` answers, or 0
  uint64_t arrived_ns = 0;   ///< time of the question that `report` answers, or 0
  WaitReport arriving, report;
};

struct RemoteRank {
  static constexpr size_t record_count = 16, pair_count = 8;
  // These are readable without the lock:
  alignas(cache_line_bytes) uint64_t state = 0;  ///< RankState
  uint64_t entered = 0;
  uint64_t completed = 0;
  uint64_t ended = 0;  ///< its process has ended, or its host is lost: 1 + errno (1 without an errno)
  // These need the lock:
  uint64_t told = 0;       ///< the furthest state that was reported, as on the wire
  uint64_t asked_ns = 0;
  uint64_t asked_count = 0;  ///< questions since its latest answer
  std::array<RemoteRecord, record_count> records{};
  uint64_t notes_asked_ns = 0;
  uint64_t notes_asked_count = 0;  ///< questions since its latest new note
  std::array<Note, kept_note_count> notes{};  ///< note n at n % kept_note_count
  std::array<Note, kept_window_note_count> window_notes{};  ///< note n at n % kept_window_note_count
  std::array<RemotePair, pair_count> pairs{};  ///< index: the asking rank's number on its host, modulo pair_count
  RemoteWaits waits;
};

class ControlMemory {
 public:
  /// Creates an unnamed file that has room for `host_count` hosts and `rank_count` ranks.
  [[nodiscard]] static Result<FileDescriptor> create(uint32_t host_count, uint32_t rank_count);
  [[nodiscard]] static Result<ControlMemory> map(int descriptor, uint32_t host_count, uint32_t rank_count);

  [[nodiscard]] ControlHeader &header() const { return *reinterpret_cast<ControlHeader *>(mapping_.get().address); }
  [[nodiscard]] RemoteHost &host(uint32_t host) const;
  [[nodiscard]] RemoteRank &rank(uint32_t rank) const;

 private:
  Mapping mapping_;
  uint32_t host_count_ = 0;
};

inline constexpr uint64_t tell_patience_ns = 500'000'000;  // how long a rank tries to report something

/// Holds the lock if held() returns true. The destructor releases it.
class ControlLock {
 public:
  /// Tries to take the lock for `patience_ns`, or once if that is 0. `index` is this rank's number on its host. `ended`
  /// says, by index, which ranks' processes have ended.
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
