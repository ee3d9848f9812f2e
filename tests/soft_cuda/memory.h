// SPDX-License-Identifier: Apache-2.0
// This file records the memory that the driver knows, by address. Device memory is a memfd mapped shared, so other
// processes can map it, too. The memory disappears with its last mapping, however processes end. State::mutex protects
// these records.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cuda/driver/driver_api.h"

namespace soft_cuda {

using namespace rondo::cuda;

enum class RangeKind { device, imported, mapped, host, registered, managed };

/// A memfd. Several ranges and handles may share it.
struct Physical {
  int descriptor = -1;
  size_t bytes = 0;
  int device = 0;  ///< number of its device in the machine
  bool exportable = true;  ///< as a descriptor for other processes
  std::atomic<uint64_t> *account =
      nullptr;  ///< the device's used bytes, to which it adds; null for another process's memory

  Physical() = default;
  Physical(const Physical &) = delete;
  Physical &operator=(const Physical &) = delete;
  ~Physical();
};

struct Range {
  RangeKind kind = RangeKind::device;
  uint64_t base = 0;
  size_t bytes = 0;      ///< requested bytes
  size_t map_bytes = 0;  ///< whole pages
  int device = 0;        ///< its ordinal, or -1 where this process does not see it
  CuContext context = nullptr;
  uint64_t id = 0;
  uint64_t references = 1;  ///< how often an import was opened
  uint64_t import_key = 0;  ///< of an import: which export it is
  bool accessible = true;   ///< false for a mapping whose access was not set
  uint64_t access = 0;      ///< a bit for each device, by its number, that a mapping names or that opened an import
  std::shared_ptr<Physical> physical;
};

struct Memory {
  std::map<uint64_t, Range> ranges;
  std::map<uint64_t, size_t> reservations;
  struct HandleUse {
    std::shared_ptr<Physical> physical;
  };
  std::unordered_map<MemoryHandle, HandleUse> handles;
  uint64_t next_handle = 0;
  uint64_t next_id = 0;

  /// Returns the range that contains all of [address, address + bytes), or null.
  Range *find(uint64_t address, size_t bytes = 1);
  Range &add(Range range);
  [[nodiscard]] size_t count(RangeKind kind) const;
};

/// Says whether memory of that kind is on a device. Work on a device may also touch memory of the other kinds.
[[nodiscard]] inline bool is_on_device(RangeKind kind) {
  return kind == RangeKind::device || kind == RangeKind::imported || kind == RangeKind::mapped;
}

constexpr size_t page_bytes = 4096;
constexpr size_t granularity_bytes = size_t{2} << 20;  ///< the granularity of cuMemCreate

/// Makes a memfd of that size. If that fails, returns null and sets `status`.
std::shared_ptr<Physical> make_physical(size_t bytes, int device, std::atomic<uint64_t> *account, CuStatus &status);

/// Maps the first `bytes` anywhere, or returns null.
void *map_physical(const Physical &physical, size_t bytes);

void unmap(uint64_t address, size_t bytes);

/// Returns the device in the name of a memfd of this driver, or -1 if the descriptor is no such memfd. Reads
/// /proc/self/fd.
[[nodiscard]] int device_of_descriptor(int descriptor);

}  // namespace soft_cuda
