// SPDX-License-Identifier: Apache-2.0
#include "src/memory/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "src/base/arithmetic.h"
#include "src/base/log.h"
#include "src/base/shared_file.h"

namespace rondo {
namespace {

size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

/// Returns whether `bytes` exceed the memory of the machine. The kernel would allow such a mapping, and kill the
/// process when the process touches the memory.
bool exceeds_machine(size_t bytes) {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return false;
  const auto total = checked_mul<size_t>(size_t{info.totalram} + info.totalswap, info.mem_unit);
  return total && bytes > *total;
}

/// Maps all of `file` at a multiple of `alignment`. It reserves a larger range of addresses first, and gives the unused
/// rest back to the system.
Result<Mapping> map_aligned(int file, size_t bytes, size_t alignment) {
  const size_t slack = alignment > page_bytes() ? alignment : 0;
  void *reserved = ::mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return system_error("mmap of " + std::to_string(bytes) + " bytes", errno);
  auto *start = static_cast<std::byte *>(reserved);
  const size_t skipped = round_up(reinterpret_cast<uintptr_t>(start), alignment) - reinterpret_cast<uintptr_t>(start);
  std::byte *address = start + skipped;
  if (::mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
    const int error_number = errno;
    ::munmap(start, bytes + slack);
    return system_error("mmap of " + std::to_string(bytes) + " shared bytes", error_number);
  }
  if (skipped != 0) ::munmap(start, skipped);
  if (skipped != slack) ::munmap(address + bytes, slack - skipped);
  return Mapping({address, bytes});
}

/// Returns whether `there` and `here` differ in three samples of 64 bytes: at the begin, in the middle and at the end.
bool differ(const std::byte *there, const std::byte *here, size_t bytes) {
  const size_t line = std::min<size_t>(bytes, 64);
  for (const size_t offset : {size_t{0}, (bytes - line) / 2, bytes - line})
    if (std::memcmp(there + offset, here + offset, line) != 0) return true;
  return false;
}

}  // namespace

FileIdentity identify(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

RegionTable::~RegionTable() {
  for (Region &region : regions_) {
    drop_view(region);
    if (!region.allocated()) continue;
    ::munmap(reinterpret_cast<void *>(region.begin), region.bytes);  // NOLINT: the address that mmap gave
    if (identify(region.descriptor) != region.file) static_cast<void>(region.own_file.release());
  }
}

Result<void *> RegionTable::allocate(size_t bytes) {
  if (bytes == 0) return invalid_argument("an allocation of 0 bytes; ask for at least 1");
  if (bytes > static_cast<size_t>(std::numeric_limits<off_t>::max()) - 2 * huge_page_bytes || exceeds_machine(bytes))
    return Error{RONDO_ERROR_OUT_OF_RESOURCES,
                 std::to_string(bytes) + " bytes are more than the memory and swap of this machine"};
  const size_t whole = round_up(bytes, page_bytes());
  const bool huge = bytes >= huge_page_bytes;
  RONDO_TRY_ASSIGN(FileDescriptor file, make_shared_file(whole, region_file_name));
  RONDO_TRY_ASSIGN(Mapping mapping, map_aligned(file.get(), whole, huge ? huge_page_bytes : page_bytes()));
  void *address = mapping.get().address;
  if (huge) static_cast<void>(::madvise(address, whole, MADV_HUGEPAGE));  // only a hint, which many systems refuse
  if (::madvise(address, whole, MADV_DONTFORK) != 0) return system_error("madvise(MADV_DONTFORK)", errno);
  RONDO_TRY(insert({reinterpret_cast<uintptr_t>(address), whole, 0, file.get(), std::move(file), {}, nullptr}));
  static_cast<void>(mapping.release());
  return address;
}

void drop_pages(int descriptor, size_t bytes) {
  // A failure is harmless: the memory then exists until the last peer has dropped its mapping.
  static_cast<void>(::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)));
}

Result<void> RegionTable::free(void *pointer) {
  Mapping mapping;  // destroyed after the lock is released, like `file`
  FileDescriptor file;
  const std::lock_guard lock(mutex_);
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  const auto found = std::lower_bound(regions_.begin(), regions_.end(), begin,
                                      [](const Region &region, uintptr_t at) { return region.begin < at; });
  if (found == regions_.end() || found->begin != begin || !found->allocated())
    return invalid_argument("the pointer is not the start of memory of rondo_mem_alloc(), or was freed before; "
                            "nothing was freed");
  mapping.reset({static_cast<std::byte *>(pointer), found->bytes});
  if (identify(found->descriptor) == found->file) {
    file = std::move(found->own_file);
    drop_pages(file.get(), found->bytes);
  } else {
    log::warning(log::Subsystem::memory,
                 "descriptor " + std::to_string(found->descriptor) + ", of memory of rondo_mem_alloc(), was closed by "
                 "the program, and may be another file's now; it is left alone");
    static_cast<void>(found->own_file.release());
  }
  drop_view(*found);
  regions_.erase(found);
  count_.store(regions_.size(), std::memory_order_relaxed);
  return {};
}

std::optional<RegionRef> RegionTable::find(const void *pointer, size_t bytes) const {
  if (bytes == 0 || count() == 0) return std::nullopt;
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  const std::shared_lock lock(mutex_);
  const auto after = std::upper_bound(regions_.begin(), regions_.end(), begin,
                                      [](uintptr_t at, const Region &region) { return at < region.begin; });
  if (after == regions_.begin()) return std::nullopt;
  const Region &region = *std::prev(after);
  const size_t offset = begin - region.begin;
  if (offset >= region.bytes || bytes > region.bytes - offset) return std::nullopt;
  return RegionRef{region.id, offset, region.bytes, region.descriptor, region.file.inode,
                   region.second_view != nullptr &&
                       differ(static_cast<const std::byte *>(pointer), region.second_view + offset, bytes)};
}

Result<uint64_t> RegionTable::add(void *pointer, size_t bytes, int descriptor) {
  return insert({reinterpret_cast<uintptr_t>(pointer), bytes, 0, descriptor, {}, {}, nullptr});
}

Result<uint64_t> RegionTable::insert(Region region) {
  const std::lock_guard lock(mutex_);
  if (regions_.size() >= regions_max)
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, "there are " + std::to_string(regions_max) +
                                                   " allocations and moved registrations; free some"};
  const auto after = std::upper_bound(regions_.begin(), regions_.end(), region.begin,
                                      [](uintptr_t at, const Region &other) { return at < other.begin; });
  const bool overlaps_next = after != regions_.end() && after->begin - region.begin < region.bytes;
  const bool overlaps_before =
      after != regions_.begin() && region.begin - std::prev(after)->begin < std::prev(after)->bytes;
  if (overlaps_next || overlaps_before) return invalid_argument("the pages overlap memory that peers can map already");
  region.id = next_id_;
  region.file = identify(region.descriptor);
  void *const view = ::mmap(nullptr, region.bytes, PROT_READ, MAP_SHARED, region.descriptor, 0);
  if (view != MAP_FAILED) {
    static_cast<void>(::madvise(view, region.bytes, MADV_DONTFORK));
    region.second_view = static_cast<const std::byte *>(view);
  }
  try {
    regions_.insert(after, std::move(region));
  } catch (const std::bad_alloc &) {
    drop_view(region);
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, "no memory for an entry in the table of regions"};
  }
  count_.store(regions_.size(), std::memory_order_relaxed);
  return next_id_++;
}

void RegionTable::drop_view(const Region &region) {
  if (region.second_view != nullptr) ::munmap(const_cast<std::byte *>(region.second_view), region.bytes);
}

void RegionTable::remove(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(regions_.begin(), regions_.end(),
                                  [&](const Region &region) { return region.id == id && !region.allocated(); });
  if (found == regions_.end()) return;
  drop_view(*found);
  regions_.erase(found);
  count_.store(regions_.size(), std::memory_order_relaxed);
}

}  // namespace rondo
