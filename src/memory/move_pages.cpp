// SPDX-License-Identifier: Apache-2.0
// This file moves pages between private anonymous memory and a memfd, while their owner uses them.
//
// To the memfd: the contents are copied to the memfd, which is then mapped over the pages. mmap(MAP_FIXED) replaces a
// mapping in one step. So a concurrent reader sees the old pages or the new ones, which are equal. A concurrent writer
// may lose a write.
//
// Back: a private copy is made at another address, and mremap() moves it over the pages, also in one step.
//
// After each step, each page has either its old or its new mapping. The memfd keeps the contents until the end. So
// after a failure, all earlier steps can be undone.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/arithmetic.h"
#include "src/base/log.h"
#include "src/base/shared_file.h"
#include "src/memory/region.h"

namespace rondo {
namespace {

using Piece = MovedPages::Piece;

/// A mapping, as the kernel describes it in /proc/self/smaps.
struct MapsEntry {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  std::string permissions;  // "rw-p"
  uint64_t inode = 0;
  std::string name;   // "", "[heap]", "[stack]", "/usr/lib/...", ...
  std::string flags;  // " rd wr mr mw me ac "
};

std::optional<MapsEntry> parse_range(const char *line) {
  MapsEntry range;
  unsigned long begin = 0, end = 0, inode = 0;  // the types that sscanf needs
  char permissions[5] = {};
  int name_at = 0;
  if (std::sscanf(line, "%lx-%lx %4s %*x %*x:%*x %lu %n", &begin, &end, permissions, &inode, &name_at) != 4)
    return std::nullopt;
  range.begin = begin;
  range.end = end;
  range.permissions = permissions;
  range.inode = inode;
  range.name = line + name_at;
  while (!range.name.empty() && (range.name.back() == '\n' || range.name.back() == ' ')) range.name.pop_back();
  return range;
}

struct CloseFile {
  void operator()(std::FILE *file) const { std::fclose(file); }
};
struct FreeLine {
  void operator()(char *line) const { std::free(line); }
};

/// Returns the mappings of this process that overlap [begin, end), ascending.
Result<std::vector<MapsEntry>> read_ranges(uintptr_t begin, uintptr_t end) {
  FileDescriptor opened(::open("/proc/self/smaps", O_RDONLY | O_CLOEXEC));
  const std::unique_ptr<std::FILE, CloseFile> file(opened.valid() ? ::fdopen(opened.get(), "r") : nullptr);
  if (file != nullptr) static_cast<void>(opened.release());
  if (file == nullptr) return system_error("open of /proc/self/smaps", errno);
  std::vector<MapsEntry> ranges;
  bool inside = false;
  char *line = nullptr;
  size_t capacity = 0;
  while (::getline(&line, &capacity, file.get()) > 0) {
    constexpr std::string_view flags_key = "VmFlags:";
    if (auto range = parse_range(line)) {
      if (range->begin >= end) break;
      inside = range->end > begin;
      if (inside) ranges.push_back(std::move(*range));
    } else if (inside && std::string_view(line).starts_with(flags_key)) {
      ranges.back().flags = std::string(line + flags_key.size());
    }
  }
  const std::unique_ptr<char, FreeLine> owned(line);
  return ranges;
}

/// Returns why pages of this mapping cannot be moved, or null if they can.
const char *refusal(const MapsEntry &range) {
  const auto has = [&](const char *flag) { return range.flags.find(flag) != std::string::npos; };
  if (range.permissions[3] != 'p') return "is shared memory";
  if (range.name == "[stack]" || has(" gd")) return "is a stack";
  const bool anonymous = range.name.empty() || range.name == "[heap]" || range.name.starts_with("[anon:");
  if (range.inode != 0 || !anonymous) return "is mapped from a file or from the kernel";
  if (range.permissions[0] != 'r') return "cannot be read";
  if (range.permissions[2] == 'x') return "is executable";
  if (has(" lo")) return "is locked (mlock)";
  if (has(" dc")) return "is excluded from fork() (MADV_DONTFORK), as memory that a device has pinned is";
  if (has(" wf") || has(" io") || has(" pf") || has(" ht") || has(" um") || has(" uw") || has(" sl"))
    return "is of a special kind (of a device, of huge pages, sealed, or watched by userfaultfd)";
  return nullptr;
}

bool on_callers_stack(uintptr_t begin, uintptr_t end) {
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return false;
  void *lowest = nullptr;
  size_t bytes = 0;
  const bool known = ::pthread_attr_getstack(&attributes, &lowest, &bytes) == 0;
  ::pthread_attr_destroy(&attributes);
  const auto stack = reinterpret_cast<uintptr_t>(lowest);
  return known && begin < stack + bytes && stack < end;
}

int protection_of(const MapsEntry &range) {
  return (range.permissions[0] == 'r' ? PROT_READ : 0) | (range.permissions[1] == 'w' ? PROT_WRITE : 0);
}

std::string hex(uintptr_t address) {
  char text[2 + 16 + 1];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

/// Cuts [begin, end) at the boundaries of its mappings. All of them must be movable.
Result<std::vector<Piece>> cut(uintptr_t begin, uintptr_t end) {
  if (on_callers_stack(begin, end))
    return Error{RONDO_ERROR_UNSUPPORTED, "the pages of the buffer cannot be moved: they are of this thread's stack"};
  RONDO_TRY_ASSIGN(const auto ranges, read_ranges(begin, end));
  std::vector<Piece> pieces;
  uintptr_t at = begin;
  for (const MapsEntry &range : ranges) {
    if (range.begin > at) break;
    if (const char *reason = refusal(range))
      return Error{RONDO_ERROR_UNSUPPORTED, "the pages of the buffer cannot be moved: the memory at " + hex(at) + " " +
                                                reason + "; register it without RONDO_REGISTER_MOVE_PAGES"};
    const uintptr_t until = std::min(range.end, end);
    pieces.push_back({at - begin, until - at, protection_of(range)});
    at = until;
  }
  if (at < end) return invalid_argument("there is no memory at " + hex(at) + ", which is inside of the buffer");
  return pieces;
}

/// Transfers a piece completely. `transfer` is pread or pwrite, which the kernel may do in parts.
template <class Transfer>
Result<void> transfer_all(Transfer transfer, int file, std::byte *memory, const Piece &piece) {
  for (size_t done = 0; done < piece.bytes;) {
    const ssize_t part = transfer(file, memory + done, piece.bytes - done, static_cast<off_t>(piece.offset + done));
    if (part < 0 && errno == EINTR) continue;
    if (part < 0 && (errno == ENOSPC || errno == ENOMEM))
      return Error{RONDO_ERROR_OUT_OF_RESOURCES, "no memory is left to move " + std::to_string(piece.bytes) + " bytes"};
    if (part <= 0) return system_error("copying to or from a memfd", part < 0 ? errno : EIO);
    done += static_cast<size_t>(part);
  }
  return {};
}

/// Replaces the pages by a private copy of their contents in the memfd. If it fails, the pages are unchanged.
Result<void> restore(int file, std::byte *base, const Piece &piece) {
  void *raw = ::mmap(nullptr, piece.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED)
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, "no memory is left to move " + std::to_string(piece.bytes) + " bytes"};
  Mapping copy({static_cast<std::byte *>(raw), piece.bytes});
  RONDO_TRY(transfer_all(::pread, file, copy.get().address, piece));
  if (::mprotect(raw, piece.bytes, piece.protection) != 0) return system_error("mprotect", errno);
  if (::mremap(raw, piece.bytes, piece.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, base + piece.offset) == MAP_FAILED)
    return system_error("mremap", errno);
  static_cast<void>(copy.release());
  return {};
}

}  // namespace

MovedPages::MovedPages(MovedPages &&other) noexcept
    : regions_(other.regions_),
      address_(std::exchange(other.address_, nullptr)),
      bytes_(other.bytes_),
      pieces_(std::move(other.pieces_)),
      file_(std::move(other.file_)),
      identity_(other.identity_),
      region_(std::exchange(other.region_, 0)) {}

MovedPages::~MovedPages() {
  if (auto back = move_back(); !back.ok())
    log::warning(log::Subsystem::memory, "a registered buffer stays in shared memory: " + back.error().message);
}

Result<void> MovedPages::move_back() {
  if (address_ == nullptr) return {};
  if (region_ != 0) regions_->remove(std::exchange(region_, 0));
  if (identify(file_.get()) != identity_) {
    const int closed = file_.release();
    address_ = nullptr;
    return Error{RONDO_ERROR_SYSTEM, "descriptor " + std::to_string(closed) +
                                         ", of the buffer's moved pages, was closed by the program, and may be another "
                                         "file's now; it is left alone, and the pages stay in shared memory"};
  }
  for (; !pieces_.empty(); pieces_.pop_back()) RONDO_TRY(restore(file_.get(), address_, pieces_.back()));
  address_ = nullptr;
  drop_pages(file_.get(), bytes_);
  file_.reset();
  return {};
}

Result<MovedPages> move_pages(RegionTable &regions, void *pointer, size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(pointer);
  const auto after = checked_add<uintptr_t>(first, bytes);
  if (pointer == nullptr || !after || *after > UINTPTR_MAX - page)
    return invalid_argument("the buffer is NULL or goes beyond the end of the address space");
  const uintptr_t begin = round_up(first, page);
  const uintptr_t end = *after / page * page;
  if (begin >= end)
    return Error{RONDO_ERROR_UNSUPPORTED, "the buffer of " + std::to_string(bytes) +
                                              " bytes holds no whole page, so there is nothing that could be moved"};
  RONDO_TRY_ASSIGN(const auto pieces, cut(begin, end));
  RONDO_TRY_ASSIGN(FileDescriptor file, make_shared_file(end - begin, region_file_name));
  std::byte *const base = static_cast<std::byte *>(pointer) + (begin - first);
  for (const Piece &piece : pieces) RONDO_TRY(transfer_all(::pwrite, file.get(), base + piece.offset, piece));

  // If a step fails from here on, the destructor of `moved` restores the pieces that were replaced.
  MovedPages moved(regions, base, end - begin, {}, std::move(file));
  moved.pieces_.reserve(pieces.size());
  for (const Piece &piece : pieces) {
    const void *mapped = ::mmap(base + piece.offset, piece.bytes, piece.protection, MAP_SHARED | MAP_FIXED,
                                moved.file_.get(), static_cast<off_t>(piece.offset));
    const int error_number = errno;
    const bool gone = mapped == MAP_FAILED && ::msync(base + piece.offset, piece.bytes, MS_ASYNC) != 0;
    if (mapped != MAP_FAILED || gone) moved.pieces_.push_back(piece);
    if (mapped != MAP_FAILED) continue;
    if (error_number == ENOMEM)
      return Error{RONDO_ERROR_OUT_OF_RESOURCES, "the process has no room for another mapping (vm.max_map_count)"};
    return system_error("mmap of a memfd over the buffer's pages", error_number);
  }
  RONDO_TRY_ASSIGN(moved.region_, regions.add(base, end - begin, moved.file_.get()));
  return moved;
}

}  // namespace rondo
