// SPDX-License-Identifier: Apache-2.0
// Callers' buffers that the kernels of other processes reach. A rank announces memory in a table of host memory that
// all ranks map; each other rank opens the memory, and notes that in the table. The rank posts a buffer in its window
// only when all have noted it (cuda/kernels/load_store_place.h). Then they find its region by an index.
//
// Layout    a line for each rank: how often its entries have changed
//           an entry for each (rank, region)
// Ordering  N1 stores an entry's fields, plain, then generation + 1 (release), and then adds 1 to changes (release).
//           N2 loads changes (acquire), then generation (acquire), and then reads the fields.
//           N3 opens (odd) or closes (even), copies the base to the device, then stores seen = generation (release).
//           N4 loads everybody's seen (acquire).
// State     withdrawn (even) --N1--> announced (odd), in use once N4 has seen it of all --N1--> withdrawn: the memory
//           may be given back, and the entry used again, once N4 has seen that of all.
// Graphs    name a region by its entry: one that was posted to a captured call is not used again, so that a graph which
//           is launched after the end of its region finds none.
// Opening and closing wait for the device, so a rank does both only in a moment in which nothing is in flight
// (src/engine/launches.h). A rank that leaves closes all it has, whatever other communicators have in flight, and says
// `region_left` of every entry.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/driver/process_name.h"
#include "cuda/kernels/load_store_wait.h"
#include "cuda/driver/handles.h"
#include "cuda/transport/info_exchange.h"

namespace rondo::cuda {

inline constexpr uint64_t region_left = UINT64_MAX;

/// Describes one region of one rank.
struct alignas(cache_line_bytes) RegionEntry {
  uint64_t generation = 0;  ///< odd: announced
  uint64_t device = 0;      ///< its ordinal in the owner's process
  uint64_t base = 0;        ///< of the allocation, in the owner's process
  ProcessName process;
  IpcMemoryHandle handle{};
  uint64_t seen[device::load_store_rank_count_max] = {};  ///< by rank
};

/// The regions of one rank. Any thread may call announce(), posted(), withdraw() and find_...(), which are for the
/// rank's own memory. One thread may call the others meanwhile.
class Regions {
 public:
  /// Connects the regions; every rank of a node calls it. `table` is zeroed device memory of this rank, of
  /// table_bytes(), for its kernels.
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
  /// Returns the address as kernels read it, or none if no region that all ranks have opened contains it. `captured`
  /// says that a graph's call posts it.
  [[nodiscard]] std::optional<uint64_t> posted(const void *pointer, uint64_t bytes, bool captured = false);
  /// Returns false if nothing was announced from that address on, otherwise withdraws it. It may be called again.
  [[nodiscard]] bool withdraw(const void *first);
  void withdraw_all();
  /// Returns a rank that has not closed the memory withdrawn from that address on. If there is none, the memory may be
  /// freed.
  [[nodiscard]] std::optional<uint32_t> find_holder(const void *first, const std::vector<uint32_t> &dead);
  /// Returns another rank that has not closed all withdrawn memory. Nothing of this rank is in flight any more.
  [[nodiscard]] std::optional<uint32_t> find_other_holder(std::vector<uint32_t> dead);

  /// Returns whether a rank has announced or withdrawn something since the last look(). Waits for no other look().
  [[nodiscard]] bool has_news() const;
  /// Opens and closes regions, while nothing is in flight.
  void look();
  /// Closes everything: no kernel of this rank reaches another's memory any more.
  void leave();
  /// Returns whether leave() has begun, on some thread.
  [[nodiscard]] bool leaves() const { return left_; }

 private:
  struct Own {
    const std::byte *first = nullptr;
    uint64_t bytes = 0;
    uint64_t base = 0;
    bool readable = false;  ///< all have opened it
    bool captured = false;  ///< a graph names it: never free again
  };
  struct Opened {
    uint64_t generation = 0;
    IpcMemory memory;
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
  std::array<Own, device::region_count_max> own_;  ///< of no bytes: not registered, or not any more
  mutable std::mutex peers_mutex_;  ///< guards what follows
  std::vector<Opened> opened_;                  ///< by rank and region
  std::vector<PrimaryContext> peer_contexts_;   ///< of other devices that this process uses
  std::vector<uint64_t> changes_seen_;          ///< by rank; has_news() reads it without the mutex
  std::atomic<bool> left_ = false;              ///< likewise
};

}  // namespace rondo::cuda
