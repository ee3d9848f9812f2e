// SPDX-License-Identifier: Apache-2.0
// This file declares the connections of a host with all other hosts, as streams of whole cells. Every rank of the host
// holds the connections. The rank that holds the lock of the shared memory uses them.
//
// A host may have a thousand connections, of which few have something to read at a time. So each rank has an epoll
// instance, which reports only these few.
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
  /// Makes the object. `memory` and `sockets`, indexed by host, must outlive it. Call open() before other functions.
  ControlLines(const ControlMemory &memory, const std::vector<FileDescriptor> &sockets,
               uint64_t timeout_ns = default_network_timeout_ns)
      : memory_(memory), sockets_(sockets), limits_(silence_limits(timeout_ns, heartbeat_ns)) {}
  [[nodiscard]] Result<void> open();

  /// The most cells that this host sends to another host until it hears from that host again. A stopped process reads
  /// nothing, so its receive buffer might fill without this limit. A full buffer would make the process seem dead.
  static constexpr uint64_t unheard_max = 64;
  /// The higher limits: one for a failure, and one for the last report, which says that all ranks of a host have left.
  static constexpr uint64_t failure_max = unheard_max + 8, buffered_max = failure_max + 20;
  /// Sends a cell. Returns false if the cell was not sent, because the connection is full or closed, or `limit` cells
  /// were sent since the host was last heard.
  bool send(uint32_t host, const Cell &cell, uint64_t limit = unheard_max) const;
  /// Sends the rests of cells that were sent in part, as far as the connections take them.
  void send_rests() const;
  /// Says whether the other host's kernel has acknowledged everything, or will never acknowledge more.
  [[nodiscard]] bool has_arrived(uint32_t host) const;
  /// Takes all cells that have arrived, until `take` returns false. If the connection has ended, returns errno, or 0 if
  /// the other end closed it.
  [[nodiscard]] std::optional<int> receive(uint32_t host, const std::function<bool(ByteReader)> &take) const;
  /// Checks the connection; call this once at each heartbeat. Returns true if nothing was acknowledged for too long.
  [[nodiscard]] bool is_silent(uint32_t host, uint64_t now_ns) const;
  /// Resets the connection. Without that, the other host might still receive from this host, and wait for an answer.
  void give_up(uint32_t host) const;
  /// Calls `serve` for each host that is not lost and whose connection has something to read, or has ended.
  void for_each_ready(const std::function<void(uint32_t host)> &serve) const;
  /// Appends what a thread waits for: something to read, or room for the rest of a cell.
  void watch(std::vector<pollfd> &descriptors) const;

 private:
  [[nodiscard]] int reason_of_end(uint32_t host, int error) const;
  [[nodiscard]] bool has_rest(uint32_t host) const;
  /// Sends the rest of a cell that was sent in part. Returns true if nothing is left.
  bool send_rest(uint32_t host) const;

  // The usual value of net.core.rmem_max, which the kernel counts in pages. A received cell takes one page and its
  // descriptor.
  static constexpr uint64_t common_buffer_bytes = 2 * 212'992, received_cell_bytes = 4096 + 512;
  static_assert(buffered_max * received_cell_bytes <= common_buffer_bytes);

  const ControlMemory &memory_;
  const std::vector<FileDescriptor> &sockets_;
  const SilenceLimits limits_;
  FileDescriptor ready_;  ///< an epoll instance with all sockets
};

}  // namespace rondo::net
