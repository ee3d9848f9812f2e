// SPDX-License-Identifier: Apache-2.0
// The links of one rank connect its executor with the ranks that it can reach. A link belongs to a channel and a peer.
// It has one direction. The view of a link points into memory of this process, even if the peer is in another process
// or on another host.
//
// Threads  Any thread may call outgoing(), incoming(), exchange(), readable_kinds(), wait_for_readers() and functions
//          that return constants. Only the executing thread, of which there is one at a time, may call set_running()
//          and use the object of peers().
// Views always show the present state of a link, so executors can rely on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "src/base/result.h"
#include "src/links/remote_memory.h"
#include "src/proto/connection.h"
#include "src/proto/exchange.h"
#include "src/proto/peer_access.h"

namespace rondo {

/// Device memory that network cards read and write without the host (GPUDirect RDMA). Networks use this interface, and
/// cuda/transport/rdma_memory.h implements it.
class RdmaMemory {
 public:
  virtual ~RdmaMemory() = default;

  /// Returns the memory, at the device's addresses. It begins and ends at page boundaries of the host.
  [[nodiscard]] virtual std::span<std::byte> bytes() const = 0;
  /// Returns whether the host, too, can read and write the memory at the addresses of bytes().
  [[nodiscard]] virtual bool is_in_reach_of_host() const = 0;
  /// Returns a dmabuf that contains bytes(), or -1.
  [[nodiscard]] virtual int dmabuf() const = 0;
  /// Runs `work` while the device is current on this thread. Network libraries that use devices need this.
  virtual void run(const std::function<void()> &work) const = 0;
  /// Makes data visible to kernels if the network has reported their arrival before this call. To be sure to see the
  /// data, a kernel must wait for a signal that the host gives after this call. Call this function inside run().
  [[nodiscard]] virtual Result<void> flush() const = 0;
};

/// The FIFOs on this side of all links to other hosts. They lie in one piece of memory, which a network device can
/// register.
struct NetworkMemory {
  std::shared_ptr<const void> owner;  ///< keeps the memory alive after the links are destroyed
  std::span<std::byte> bytes;
  std::shared_ptr<const RdmaMemory> device;  ///< device memory with slots for payloads, kept alive; may be null
  std::shared_ptr<const void> message_owner = nullptr;  ///< keeps message_bytes alive
  std::span<std::byte> message_bytes{};                 ///< memory of the links for messages; may be empty
};

class Links {
 public:
  virtual ~Links() = default;

  /// Returns the smallest geometry of all links, which is constant.
  [[nodiscard]] virtual ConnectionGeometry geometry() const = 0;
  [[nodiscard]] virtual uint32_t channel_count() const = 0;
  /// Returns the view of a link, which is valid until the links are destroyed. The peer may be this rank itself. If the
  /// channel has no link with the peer, the view has no memory: its base is null.
  [[nodiscard]] virtual ConnectionView outgoing(uint32_t channel, uint32_t peer) const = 0;
  [[nodiscard]] virtual ConnectionView incoming(uint32_t channel, uint32_t peer) const = 0;
  /// Returns whether a schedule may use the links with the peer (src/plan/tuner.h).
  [[nodiscard]] virtual bool carries_plans(uint32_t /*peer*/) const { return true; }
  /// Makes links usable that no schedule uses. Call it before the first exchange of blocks. Any thread.
  virtual void open_blocks() {}
  /// Returns whether connections for messages exist (src/engine/run_transfers.h).
  [[nodiscard]] virtual bool carries_messages() const { return false; }
  /// Makes outgoing_messages() and incoming_messages() usable. Call it before the first message. Any thread.
  virtual Result<void> open_messages() { return {}; }
  [[nodiscard]] virtual ConnectionView outgoing_messages(uint32_t) const { return {}; }
  [[nodiscard]] virtual ConnectionView incoming_messages(uint32_t) const { return {}; }
  /// Returns whether this rank can write to the windows of all other ranks and signal these ranks.
  [[nodiscard]] virtual bool has_signals() const { return false; }
  /// Makes signals() and outgoing_puts() usable. Call it before the first one-sided operation. Any thread.
  virtual Result<void> open_one_sided() { return open_messages(); }
  /// Returns the link that takes puts to a rank of another host (PutFrame), or a view without memory.
  [[nodiscard]] virtual ConnectionView outgoing_puts(uint32_t) const { return {}; }
  /// Lets ranks of other hosts write to a buffer until withdraw_window(). `number` is the number of the registration.
  /// Any thread may call both functions. After withdraw_window() no link writes to the buffer.
  virtual void expose_window(uint64_t /*number*/, std::span<std::byte>) {}
  virtual void withdraw_window(uint64_t /*number*/) {}
  /// Returns the signal_count counters of the signals that `from` sends to `to`. Call it after open_one_sided(). Rank
  /// `from` writes the counters. If `from` is on another host, this rank's links write them.
  [[nodiscard]] virtual uint64_t *signals(uint32_t /*from*/, uint32_t /*to*/) const { return nullptr; }
  /// Returns where the signals are, for devices that map them.
  [[nodiscard]] virtual SignalFile signal_file() const { return {}; }
  /// Opens a buffer of a rank for writing. If it cannot, RONDO_ERROR_UNSUPPORTED gives the reason.
  [[nodiscard]] virtual Result<std::shared_ptr<const RemoteMemory>> open_memory(uint32_t, const MemoryPlace &) const {
    return Error{RONDO_ERROR_UNSUPPORTED, "the ranks share no memory"};
  }
  /// Returns where a device writes the payloads for outgoing(): an address in network_memory().device. If the result is
  /// null, it writes payloads to the slots of outgoing().
  [[nodiscard]] virtual std::byte *device_slots(uint32_t, uint32_t) const { return nullptr; }
  /// Returns where a device writes the payloads for outgoing_messages(), as device_slots() does.
  [[nodiscard]] virtual std::byte *device_message_slots(uint32_t) const { return nullptr; }
  /// Returns the memory that all ranks map for the kernel load_store. If ranks share no memory, its rank_count is 0.
  [[nodiscard]] virtual ExchangeView exchange() const = 0;

  /// Returns the kinds of this rank's exported buffers that `peer` can read in place, as bits of PayloadKind.
  [[nodiscard]] virtual uint32_t readable_kinds(uint32_t peer) const = 0;
  /// Returns the object that reads exported buffers of peers, wakes peers, and lets this rank sleep.
  [[nodiscard]] virtual PeerAccess &peers() = 0;
  /// Returns whether data moves on the links only during PeerAccess::progress(). If so, waiting threads call it.
  [[nodiscard]] virtual bool needs_progress() const { return false; }
  /// Returns the network's memory, which is empty if all ranks are on this host.
  [[nodiscard]] virtual NetworkMemory network_memory() const { return {}; }

  /// Marks the begin or the end of a run, which may read peers' exported buffers. set_running(true) is a sync store if
  /// peers share the process. Then check for a failure: if this rank sees none, wait_for_readers() sees the run.
  virtual void set_running(bool running) = 0;
  /// Waits until no thread of this process reads buffers that this rank exported, but at most one second. Call it after
  /// a failure.
  virtual void wait_for_readers() const = 0;

  /// Returns the bytes of shared memory that the communicator reserves on this host, including boards and
  /// records.
  [[nodiscard]] virtual uint64_t shared_bytes() const = 0;
  /// Returns how many of the shared_bytes() belong to pages that were accessed so far.
  [[nodiscard]] virtual Result<uint64_t> used_bytes() const = 0;

  /// Returns the kinds of the exported buffers of `peer` that this rank can reach. The system may allow access in only
  /// one direction, so that readable_kinds() differs.
  [[nodiscard]] virtual uint32_t reachable_kinds(uint32_t peer) const { return readable_kinds(peer); }
};

}  // namespace rondo
