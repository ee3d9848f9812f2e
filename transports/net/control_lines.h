// SPDX-License-Identifier: Apache-2.0
// The connections of a host with its neighbours, as streams of whole cells. Every rank of the host holds them, and
// whoever has the lock of the shared memory uses them.
#pragma once

#include <poll.h>

#include <functional>
#include <optional>
#include <vector>

#include "src/base/unique_handle.h"
#include "src/bootstrap/bytes.h"
#include "transports/net/control_cell.h"
#include "transports/net/control_memory.h"

namespace rondo::net {

class ControlLines {
 public:
  /// `sockets` is indexed by host; both outlive this.
  ControlLines(const ControlMemory &memory, const std::vector<FileDescriptor> &sockets,
               uint64_t timeout_ns = default_network_timeout_ns)
      : memory_(memory), sockets_(sockets), limits_(silence_limits(timeout_ns, heartbeat_ns)) {}

  /// A stopped process takes nothing in, and must not be taken for dead when its buffer is full. So only this many
  /// cells are sent to a host that has said nothing since.
  static constexpr uint64_t unheard_max = 64;
  /// Such a limit with the last messages: a failure, and that all ranks of a host have left.
  static constexpr uint64_t failure_max = unheard_max + 8, buffered_max = failure_max + 20;
  /// Sends a cell. Returns false if it was not sent: the connection is full or closed, or the host has not been heard
  /// from since `limit` cells were sent.
  bool send(uint32_t host, const Cell &cell, uint64_t limit = unheard_max) const;
  /// Returns true if nothing is left of the cell that was sent in part.
  bool send_rest(uint32_t host) const;
  /// Says whether the other host's kernel has acknowledged everything, or never will.
  [[nodiscard]] bool has_arrived(uint32_t host) const;
  /// Takes all cells that have arrived, until `take` returns false. Returns what ended the connection: errno, 0 if it
  /// was closed.
  [[nodiscard]] std::optional<int> receive(uint32_t host, const std::function<bool(ByteReader)> &take) const;
  /// Checks the connection once; to be called at each heartbeat. Returns true if nothing was acknowledged for too long.
  [[nodiscard]] bool is_silent(uint32_t host, uint64_t now_ns) const;
  /// Resets the connection. The other host may still receive from this one, and wait for an answer itself.
  void give_up(uint32_t host) const;
  [[nodiscard]] pollfd interest(uint32_t host) const;

 private:
  [[nodiscard]] int reason_of_end(uint32_t host, int error) const;

  // This is what the kernel mostly gives for net.core.rmem_max. It counts pages: a cell that a network card has
  // received takes one, and what describes it.
  static constexpr uint64_t common_buffer_bytes = 2 * 212'992, received_cell_bytes = 4096 + 512;
  static_assert(buffered_max * received_cell_bytes <= common_buffer_bytes);

  const ControlMemory &memory_;
  const std::vector<FileDescriptor> &sockets_;
  const SilenceLimits limits_;
};

}  // namespace rondo::net
