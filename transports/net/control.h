// SPDX-License-Identifier: Apache-2.0
// What ranks of other hosts are known to do: the control plane's view of them, over a connection of its own to each.
// The view lags: a rank tells its state every heartbeat, and what it entered as an operation when it is asked.
//
// Frame    body_bytes u32 | kind u8 | body        at most frame_bytes_max; numbers are little-endian
//   status   state u64 | entered u64 | completed u64         every heartbeat_ns, and when the state changes
//   ask      operation u64
//   record   operation u64 | signature | plan choice | history   the answer, for it and the kept_records - 1 before it,
//            where they were entered and are kept
//   clock    asked u64 | received u64 | answered u64     asked of rank 0 every heartbeat, by one rank of each other
//            host: zeros but for the time of asking; the answer has all three, by the clocks of those who took them
//   failure  status u32 | rank u32 | peer u32 | operation u64 | text
// Life     A connection that ends behind a status `left` is a departure; without one the process has ended. A cut cable
//          is silent: heartbeats that nobody acknowledges for a second end the connection. A stopped process is late,
//          not dead: its kernel acknowledges. Heartbeats pause when unread ones could fill its buffer.
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/base/unique_handle.h"
#include "src/bootstrap/bytes.h"
#include "transports/net/tcp_state.h"
#include "transports/recording.h"

namespace rondo::net {

inline constexpr uint64_t heartbeat_ns = 200'000'000;
inline constexpr uint32_t silent_looks = 5;  // the first a heartbeat behind what it sees: 1.0 to 1.2 s
inline constexpr uint32_t repeats_max = 3;   // 1.4 to 1.6 s

struct ControlSocket {
  uint32_t peer = 0;
  FileDescriptor socket;
};

struct RankStatus {
  RankState state = RankState::absent;
  uint64_t entered = 0;
  uint64_t completed = 0;
};

/// Any thread.
class Control {
 public:
  struct Owner {
    std::function<RankStatus()> status;                             ///< this rank's own
    std::function<std::optional<OperationInfo>(uint64_t)> entered;  ///< what this rank entered as an operation
    std::function<void(const Error &)> failed;                      ///< another host's ranks have failed
    /// This rank asks rank 0, which is of another host, for its clock; called when a better measurement is there.
    std::function<void(const ClockOffset &)> clock_measured;  ///< null: it does not
  };
  /// Sets the sockets' options. They are connected, and both ends have proved who they are.
  [[nodiscard]] static Result<std::unique_ptr<Control>> make(uint32_t rank_count, std::vector<ControlSocket> sockets,
                                                             Owner owner);

  [[nodiscard]] RankStatus status(uint32_t peer) const;
  /// Asks where it is not known yet; ask again later then.
  [[nodiscard]] std::optional<OperationInfo> entered(uint32_t peer, uint64_t operation);
  /// Appends the ranks whose connection ended while they were alive.
  void add_dead(std::vector<uint32_t> &dead) const;
  /// Its connection has ended, or it said that it left.
  [[nodiscard]] bool gone(uint32_t peer) const;
  /// " has ended", " gave no answer for 1.0 s"
  [[nodiscard]] std::string why_dead(uint32_t peer) const;

  /// Sends this rank's status to all.
  void tell_status();
  void report_failure(const Error &error);
  /// Takes what has come, sends what is due.
  void step(uint64_t now_ns);
  void watch(std::vector<pollfd> &descriptors) const;

 private:
  static constexpr size_t kept_records = 16;
  struct Record {
    uint64_t operation = 0;
    OperationInfo what;
  };
  struct Peer {
    uint32_t rank = 0;
    FileDescriptor socket;
    RankStatus status;
    std::array<Record, kept_records> records{};
    uint64_t asked_operation = 0;
    uint64_t asked_ns = 0;
    uint64_t heartbeats_unanswered = 0;
    SilenceWatch silence{silent_looks, repeats_max};  ///< looks at each heartbeat
    Bytes input;
    Bytes output;
    int send_error = 0;  ///< nothing can be sent any more; what it said last is still to be read
    bool lost = false;
    std::string why;
  };

  Control(uint32_t rank_count, Owner owner) : owner_(std::move(owner)), index_of_(rank_count, -1) {}
  [[nodiscard]] const Peer *find(uint32_t rank) const;
  void send(Peer &peer, uint8_t kind, ByteView body);
  void flush(Peer &peer);
  void receive(Peer &peer);
  void take(Peer &peer, uint8_t kind, ByteReader body);
  void answer(Peer &peer, uint64_t operation);
  void take_clock(Peer &peer, ByteReader body);
  void lose(Peer &peer, std::string why);

  Owner owner_;
  std::vector<int32_t> index_of_;  ///< by rank; -1: of this host
  mutable std::mutex mutex_;       ///< guards what follows
  std::vector<Peer> peers_;
  uint64_t next_beat_ns_ = 0;
  uint64_t clock_asked_ns_ = 0;       ///< 0: no answer is due
  ClockOffset clock_;                 ///< the best so far
  uint64_t clock_measured_ns_ = 0;    ///< when; 0: never
};

}  // namespace rondo::net
