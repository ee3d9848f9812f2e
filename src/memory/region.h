// SPDX-License-Identifier: Apache-2.0
// Regions are memory of this process that other processes can map, because it belongs to a memfd. They are made by
// rondo_mem_alloc(), and by moving the pages of a buffer of the user's own into a memfd, in place.
//
// A peer maps a region by its descriptor (/proc/PID/fd/N) and keeps the mapping under (process, region id, inode). Ids
// are never used again, so a mapping of a freed region is never taken for another's. The program may close a descriptor
// that is not its own, and another file may get its number: compare inodes before a region's descriptor is used.
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
/// Returns the identity; it is all zero, which no file has, if `descriptor` is not open.
[[nodiscard]] FileIdentity identify(int descriptor);

/// The position of a buffer in a region. It is valid as long as the region; freeing memory in use is a caller's error.
struct RegionRef {
  uint64_t id = 0;            ///< from 1, never used again in this process
  uint64_t offset = 0;        ///< bytes from the region's start
  uint64_t region_bytes = 0;  ///< whole pages
  int descriptor = -1;        ///< of the memfd, in this process
  uint64_t inode = 0;         ///< of the memfd
  bool replaced = false;      ///< the program has mapped other memory there: peers would read what nobody sees

  bool operator==(const RegionRef &) const = default;
};

/// Any thread.
class RegionTable {
 public:
  static constexpr size_t regions_max = 65'536;
  static constexpr size_t huge_page_bytes = size_t{2} << 20;

  RegionTable() = default;
  RegionTable(const RegionTable &) = delete;
  RegionTable &operator=(const RegionTable &) = delete;
  ~RegionTable();  ///< frees the allocations

  /// Returns zeroed memory of at least `bytes`, page-aligned. From 2 MiB on it is aligned to that, and in huge pages if
  /// the system gives them. A child of fork() does not have it.
  [[nodiscard]] Result<void *> allocate(size_t bytes);

  /// Frees the memory. RONDO_ERROR_INVALID_ARGUMENT: allocate() did not return it, or it is freed already.
  Result<void> free(void *pointer);

  /// Returns the region that holds all of [pointer, pointer + bytes), if there is one. A buffer of 0 bytes is in none.
  /// Every operation calls this: a shared lock, a binary search, and a comparison of three lines of the buffer and of
  /// the memfd. If these differ, the program has mapped other memory at that address. If newly mapped memory holds the
  /// same there, this is not noticed.
  [[nodiscard]] std::optional<RegionRef> find(const void *pointer, size_t bytes) const;

  /// Enters whole pages that a mapping of `descriptor` from its start on holds; they stay the caller's, which removes
  /// them before it unmaps or closes. RONDO_ERROR_INVALID_ARGUMENT: overlaps another region.
  [[nodiscard]] Result<uint64_t> add(void *pointer, size_t bytes, int descriptor);
  void remove(uint64_t id);

  [[nodiscard]] size_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  struct Region {
    uintptr_t begin = 0;
    size_t bytes = 0;
    uint64_t id = 0;
    int descriptor = -1;
    FileDescriptor own_file;  // of allocate(): the table owns pages and descriptor
    FileIdentity file;
    const std::byte *second_view = nullptr;  // of the memfd, for reading; null if there was no room for it

    [[nodiscard]] bool allocated() const { return own_file.valid(); }
  };

  Result<uint64_t> insert(Region region);
  static void drop_view(const Region &region);

  mutable std::shared_mutex mutex_;
  std::vector<Region> regions_;      // ascending, disjoint
  uint64_t next_id_ = 1;
  std::atomic<size_t> count_ = 0;    // relaxed: zero spares the lock, and a thread with a region's address saw it added
};

/// Frees the pages of a memfd at once, although peers still map it.
void drop_pages(int descriptor, size_t bytes);

/// A buffer's whole pages, moved into a memfd in place and entered in a table. Moves them back when it ends.
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

  /// Makes the pages private anonymous memory again, in place, with their present contents. No other thread may write
  /// to them meanwhile. It fails if memory runs out, or if the program has closed the memfd's descriptor. The pages
  /// then stay as they are: usable, but shared with children of fork().
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
  std::byte *address_;  // null: moved back, or from
  size_t bytes_;
  std::vector<Piece> pieces_;  // those that are moved by now
  FileDescriptor file_;
  FileIdentity identity_;
  uint64_t region_ = 0;  // 0: not entered
};

/// Moves the whole pages inside [pointer, pointer + bytes); addresses, contents and protections stay. What is not kept:
/// the pages' advice (madvise) and NUMA policy (mbind). No other thread may write to them during the call.
/// @return RONDO_ERROR_UNSUPPORTED with the reason, and nothing changed: no whole page is in the buffer, or a page is
///         not private anonymous memory, or is part of a stack (another thread's stack cannot be told from its heap: do
///         not register one), locked, executable, unreadable or excluded from fork(), as memory pinned by a device is.
[[nodiscard]] Result<MovedPages> move_pages(RegionTable &regions, void *pointer, size_t bytes);

/// The name of a region's memfd in /proc.
inline constexpr const char *region_file_name = "rondo-region";

}  // namespace rondo
