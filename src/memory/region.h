// SPDX-License-Identifier: Apache-2.0
// A region is memory of this process that other processes can map, because it belongs to a memfd. rondo_mem_alloc()
// makes regions. RONDO_REGISTER_MOVE_PAGES makes one of a user's buffer: it moves the pages into a memfd, in place.
//
// A peer maps a region by its descriptor (/proc/PID/fd/N) and keeps the mapping under (process, region id, inode). Ids
// are never used again, so a mapping of a freed region is never taken for another region. The program may close any
// descriptor, and another file may get the same number. So a peer compares inodes before it uses a region's descriptor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "src/base/result.h"
#include "src/base/unique_handle.h"

namespace rondo {

/// The identity of the file that a descriptor refers to. All memfds of a system are on one device.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;

  bool operator==(const FileIdentity &) const = default;
};
/// Returns the identity. If `descriptor` is not open, it is all zero, which no file has.
[[nodiscard]] FileIdentity identify(int descriptor);

/// The position of a buffer in a region. It is valid as long as the region exists. Callers must not free memory that is
/// in use.
struct RegionRef {
  uint64_t id = 0;            ///< from 1, never used again in this process
  uint64_t offset = 0;        ///< bytes from the region's start
  uint64_t region_bytes = 0;  ///< size of the region, in whole pages
  int descriptor = -1;        ///< descriptor of the memfd in this process
  uint64_t inode = 0;         ///< inode of the memfd
  bool replaced = false;      ///< true if the program has mapped other memory there; peers would read wrong data

  bool operator==(const RegionRef &) const = default;
};

/// The regions of this process. Any thread.
class RegionTable {
 public:
  static constexpr size_t regions_max = 65'536;
  static constexpr size_t huge_page_bytes = size_t{2} << 20;

  RegionTable() = default;
  RegionTable(const RegionTable &) = delete;
  RegionTable &operator=(const RegionTable &) = delete;
  ~RegionTable();  ///< frees the allocations

  /// Returns zeroed memory of at least `bytes`, page-aligned. If `bytes` is 2 MiB or more, the memory is aligned to 2
  /// MiB, and has huge pages if the system gives them. A child of fork() does not have the memory.
  [[nodiscard]] Result<void *> allocate(size_t bytes);

  /// Frees the memory. RONDO_ERROR_INVALID_ARGUMENT: allocate() did not return it, or it has been freed already.
  Result<void> free(void *pointer);

  /// Returns the region that contains all of [pointer, pointer + bytes), if any. A buffer of 0 bytes is in no region.
  /// Every operation calls find(). It takes a shared lock, searches, and compares three cache lines of the region with
  /// the memfd. If the lines differ, the program has mapped other memory there. If such memory has equal values in
  /// these lines, it is not noticed.
  [[nodiscard]] std::optional<RegionRef> find(const void *pointer, size_t bytes) const;

  /// Adds whole pages that map `descriptor` from its start. The caller owns pages and descriptor, and must remove the
  /// region before it unmaps or closes them. RONDO_ERROR_INVALID_ARGUMENT: the pages overlap another region.
  [[nodiscard]] Result<uint64_t> add(void *pointer, size_t bytes, int descriptor);
  void remove(uint64_t id);

  [[nodiscard]] size_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  struct Region {
    uintptr_t begin = 0;
    size_t bytes = 0;
    uint64_t id = 0;
    int descriptor = -1;
    FileDescriptor own_file;  // set if allocate() made the region: then the table owns pages and descriptor
    FileIdentity file;
    const std::byte *second_view = nullptr;  // second mapping of the memfd, for reading; null if it failed

    [[nodiscard]] bool allocated() const { return own_file.valid(); }
  };

  Result<uint64_t> insert(Region region);
  static void drop_view(const Region &region);

  mutable std::shared_mutex mutex_;
  std::vector<Region> regions_;      // ascending, disjoint
  uint64_t next_id_ = 1;
  std::atomic<size_t> count_ = 0;    // if 0, find() takes no lock; relaxed, as a thread that has a region sees no 0
};

/// Frees the pages of a memfd at once, even if peers still map the memfd.
void drop_pages(int descriptor, size_t bytes);

/// A buffer's whole pages, moved to a memfd at the same addresses and added to a table. The destructor undoes both.
class MovedPages {
 public:
  /// A run of pages with one protection.
  struct Piece {
    size_t offset = 0;
    size_t bytes = 0;
    int protection = 0;
  };

  MovedPages(MovedPages &&other) noexcept;
  MovedPages &operator=(MovedPages &&) = delete;
  MovedPages(const MovedPages &) = delete;
  MovedPages &operator=(const MovedPages &) = delete;
  ~MovedPages();

  [[nodiscard]] std::byte *address() const { return address_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] uint64_t region() const { return region_; }

  /// Makes the pages private anonymous memory again, in place, with their current contents. No other thread may write
  /// to the pages during the call. It fails if memory runs out, or if the program has closed the memfd's descriptor.
  /// After a failure, the pages stay usable, but are shared with children of fork().
  Result<void> move_back();

 private:
  friend Result<MovedPages> move_pages(RegionTable &regions, void *pointer, size_t bytes);
  MovedPages(RegionTable &regions, std::byte *address, size_t bytes, std::vector<Piece> pieces, FileDescriptor file)
      : regions_(&regions),
        address_(address),
        bytes_(bytes),
        pieces_(std::move(pieces)),
        file_(std::move(file)),
        identity_(identify(file_.get())) {}

  RegionTable *regions_;
  std::byte *address_;  // null if the pages were moved back, or the object was moved from
  size_t bytes_;
  std::vector<Piece> pieces_;  // pieces that have been moved
  FileDescriptor file_;
  FileIdentity identity_;
  uint64_t region_ = 0;  // 0 if not in the table
};

/// Moves the whole pages inside of [pointer, pointer + bytes). The pages keep addresses, contents and protections, but
/// lose advice (madvise) and NUMA policy (mbind). No other thread may write to the pages during the call.
/// @return RONDO_ERROR_UNSUPPORTED with the reason, and nothing has changed: the buffer contains no whole page, or a
///         page cannot be moved. A page cannot be moved if it is not private anonymous memory, is locked, executable or
///         unreadable, is in this thread's stack, or is excluded from fork(), like memory that a device has pinned. The
///         stack of another thread is not recognised, so do not register one.
[[nodiscard]] Result<MovedPages> move_pages(RegionTable &regions, void *pointer, size_t bytes);

/// The name of a region's memfd in /proc.
inline constexpr const char *region_file_name = "rondo-region";

}  // namespace rondo
