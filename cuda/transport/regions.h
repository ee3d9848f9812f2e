// SPDX-License-Identifier: Apache-2.0
// This file declares regions: callers' buffers that kernels of other processes reach. A rank announces its memory in a
// table in host memory, which all ranks map. Each other rank opens the memory and marks it as seen in the table. After
// all ranks have done so, the rank may post a buffer in that memory in its window (cuda/kernels/load_store_place.h).
// The others then find the region by its index.
//
// Layout    a line for each rank: how often its entries have changed
//           an entry for each (rank, region)
// Ordering  N1 stores an entry's fields, plain, then generation + 1 (release), and then adds 1 to changes (release).
//           N2 loads changes (acquire), then generation (acquire), and then reads the fields.
//           N3 opens (odd) or closes (even) the memory, copies its address to the device, then stores seen (release).
//           N4 loads the `seen` of every rank (acquire).
// State     withdrawn (even) --N1--> announced (odd): in use once N4 finds it seen by all
//           announced (odd) --N1--> withdrawn (even): once N4 finds it seen by all, the memory may be freed, and the
//           entry used again
// Graphs    A graph names a region by its entry. After a captured call has posted an entry, the entry is never used
//           again. So a graph that is launched after the end of its region finds no other region there.
// Opening and closing wait for the device, so a rank does them only in a quiet moment (src/engine/device_executor.h).
// A leaving rank closes everything, even while other communicators have work in flight. It then marks every entry with
// `region_left`.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/driver/handles.h"
#include "cuda/kernels/load_store_wait.h"
#include "cuda/transport/info_exchange.h"
#include "src/base/kernel_file.h"

namespace rondo::cuda {

inline constexpr uint64_t region_left = UINT64_MAX;

/// Describes one region of one rank.
struct alignas(cache_line_bytes) RegionEntry {
  uint64_t generation = 0;  ///< an odd number means announced
  uint64_t device = 0;      ///< its ordinal in the owner's process
  uint64_t base = 0;        ///< of the allocation, as its owner sees it
  ProcessName process;
  IpcMemoryHandle handle{};
  uint64_t seen[device::load_store_rank_count_max] = {};  ///< by rank: the latest generation that it has followed
};

/// The regions of one rank. Any thread may call announce(), posted(), withdraw() and find_...(), which concern this
/// rank's own memory. The other functions may be called by one thread at a time.
class Regions {
 public:
  /// Connects the regions; every rank of a node calls it. `table` is zeroed device memory of this rank, of
  /// table_bytes() bytes, which its kernels read.
  [[nodiscard]] static Result<std::unique_ptr<Regions>> connect(const PrimaryContext &context, CuStream stream,
                                                                DevicePointer table, InfoExchange &info_exchange);
  Regions(const PrimaryContext &context, CuStream stream, DevicePointer table, Mapping memory, uint32_t rank,
          uint32_t rank_count);
  Regions(const Regions &) = delete;
  Regions &operator=(const Regions &) = delete;
  ~Regions() { leave(); }

  [[nodiscard]] static uint64_t table_bytes(uint32_t rank_count) {
    return uint64_t{rank_count} * device::region_count_max * sizeof(uint64_t);
  }
  [[nodiscard]] DevicePointer table() const { return table_; }

  /// Publishes the memory in a free entry. RONDO_ERROR_UNSUPPORTED: other processes cannot open such memory.
  /// RONDO_ERROR_OUT_OF_RESOURCES: no entry is free.
  [[nodiscard]] Result<void> announce(const void *first, uint64_t bytes);
  /// Returns the buffer's region_address(), for a window. Returns nothing if no region that all ranks have opened
  /// contains the buffer. `captured` says that a captured call posts it.
  [[nodiscard]] std::optional<uint64_t> posted(const void *pointer, uint64_t bytes, bool captured = false);
  /// Ends the announcement of the memory at this address. Returns false if no memory was announced there. The call may
  /// be repeated.
  [[nodiscard]] bool withdraw(const void *first);
  void withdraw_all();
  /// Returns a rank that has not yet closed the memory withdrawn at this address. If no such rank is left, returns
  /// nothing, and the memory may be freed.
  [[nodiscard]] std::optional<uint32_t> find_holder(const void *first, const std::vector<uint32_t> &dead);
  /// Returns another rank that still has withdrawn memory open. Call it when nothing of this rank is in flight.
  [[nodiscard]] std::optional<uint32_t> find_other_holder(std::vector<uint32_t> dead);

  /// Says whether a rank has announced or withdrawn something since the last look(). It does not wait for a look() in
  /// progress.
  [[nodiscard]] bool has_news() const;
  /// Opens and closes regions. Call it while nothing is in flight.
  void look();
  /// Closes regions like look(), but leaves the table on the device unchanged. Later, catch_up() must follow.
  void close_withdrawn();
  /// Removes from the device's table what close_withdrawn() has closed. Makes the next look() check all entries again.
  [[nodiscard]] Result<void> catch_up();
  /// Closes everything. After that no kernel of this rank reaches memory of another rank.
  void leave();
  /// Says whether leave() has begun on some thread.
  [[nodiscard]] bool leaves() const { return left_; }

 private:
  struct Own {
    const std::byte *first = nullptr;
    uint64_t bytes = 0;
    uint64_t base = 0;
    bool readable = false;  ///< all ranks have opened it
    bool captured = false;  ///< a graph names it, so it is never used again
  };
  struct Opened {
    uint64_t generation = 0;
    IpcMemory memory;
    bool in_table = false;  ///< false: its entry in the table on the device is 0
  };

  [[nodiscard]] uint64_t &changes(uint32_t rank) const;
  [[nodiscard]] RegionEntry &entry(uint32_t rank, uint32_t region) const;
  [[nodiscard]] bool all_have_seen(uint32_t region) const;
  [[nodiscard]] std::optional<uint32_t> holder(uint32_t region, const std::vector<uint32_t> &dead) const;
  void change(uint32_t region);
  void follow(uint32_t rank, uint32_t region);
  [[nodiscard]] Result<DevicePointer> open(const RegionEntry &entry, IpcMemory &memory);
  [[nodiscard]] Result<void> write_base(uint32_t rank, uint32_t region, DevicePointer base);

  const PrimaryContext &context_;
  const CuStream stream_;
  const DevicePointer table_;
  const Mapping memory_;
  const uint32_t rank_, rank_count_;
  std::mutex own_mutex_;  ///< guards own_
  std::array<Own, device::region_count_max> own_;  ///< an entry of 0 bytes has no registered memory
  mutable std::mutex peers_mutex_;  ///< guards what follows
  std::vector<Opened> opened_;                  ///< by rank and region
  std::vector<PrimaryContext> peer_contexts_;   ///< of other devices that this process uses
  std::vector<uint64_t> changes_seen_;          ///< by rank; has_news() reads it without the mutex
  bool is_behind_ = false;                      ///< close_withdrawn() was called, and catch_up() was not yet
  std::atomic<bool> left_ = false;              ///< read without the mutex, too
};

}  // namespace rondo::cuda
