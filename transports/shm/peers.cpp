// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "src/base/clock.h"
#include "src/base/kernel_file.h"
#include "src/proto/memory.h"

namespace rondo::shm {
namespace {

constexpr size_t map_line_bytes = 100;  // enough bytes of a line of /proc/PID/maps to include the inode
constexpr uint32_t processor_bits = 16;  // of RankBoard::processor
constexpr uint64_t processor_mask = (uint64_t{1} << processor_bits) - 1;
constexpr uint64_t recent_ms = 10;  // more than the time for which a kernel lets another thread run

/// Opens a duplicate of descriptor `descriptor` of process `process`.
FileDescriptor open_foreign(int process, int descriptor) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/fd/%d", process, descriptor);
  return FileDescriptor(::open(path.data(), O_RDWR | O_CLOEXEC));
}

/// Reads all of [address, address + bytes) of another process.
bool read_foreign(int process, uint64_t address, std::byte *to, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    const iovec local{to + done, bytes - done};
    const iovec remote{reinterpret_cast<void *>(address + done), bytes - done};
    const ssize_t got = ::process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (got <= 0) return false;
    done += static_cast<uint64_t>(got);
  }
  return true;
}

/// Says whether `process` has `file` mapped. Returns true if the system does not permit the check.
bool may_map(int process, const FileIdentity &file) {
  const std::string maps = read_kernel_file("/proc/" + std::to_string(process) + "/maps");
  for (size_t at = 0; at < maps.size(); at = std::min(maps.find('\n', at), maps.size() - 1) + 1) {  // a line each turn
    unsigned long long inode = 0;  // "begin-end permissions offset device inode path"
    const std::string line = maps.substr(at, map_line_bytes);
    if (std::sscanf(line.c_str(), "%*s %*s %*s %*s %llu", &inode) == 1 && inode == file.inode) return true;
  }
  return maps.empty();
}

}  // namespace

const std::byte *MappingCache::find(int process, const SlotHeader &exported, uint64_t device) {
  const Key key{process, exported.region, exported.inode};
  const uint64_t region_bytes = exported.region_bytes;
  own_shortage_ = 0;
  if (const auto found = entries_.find(key); found != entries_.end()) {
    found->second.last_use = ++use_;
    return found->second.mapping.get().bytes == region_bytes ? found->second.mapping.get().address : nullptr;
  }
  const FileDescriptor file = open_foreign(process, exported.descriptor);
  if (!file.valid()) return fail(errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || static_cast<uint64_t>(status.st_size) < region_bytes ||
      FileIdentity{status.st_dev, status.st_ino} != FileIdentity{device, exported.inode})
    return nullptr;
  void *const address = ::mmap(nullptr, region_bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) return fail(errno);
  Mapping mapping({static_cast<std::byte *>(address), region_bytes});  // unmaps if the insertion throws
  keep_from_children(mapping);
  if (entries_.size() >= entry_count_max) evict_one();
  Entry &entry = entries_[key];
  entry.mapping = std::move(mapping);
  entry.last_use = ++use_;
  return entry.mapping.get().address;
}

const std::byte *MappingCache::fail(int error_number) {
  own_shortage_ = ran_out(error_number) ? error_number : 0;
  return nullptr;
}

void MappingCache::evict_one() {
  entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                  [](const auto &a, const auto &b) { return a.second.last_use < b.second.last_use; }));
}

Result<std::unique_ptr<ShmPeers>> ShmPeers::create(std::shared_ptr<Segment> segment, uint32_t rank) {
  std::unique_ptr<ShmPeers> peers(new ShmPeers(std::move(segment), rank));
  const auto own = static_cast<int>(::getpid());
  for (uint32_t peer = 0; peer < peers->segment_->shape().rank_count; ++peer) {
    Peer entry;
    entry.process = static_cast<int>(memory::load_acquire(peers->segment_->board(peer).process));
    entry.same_process = entry.process == own;
    // A kernel before 5.3 has no process handles, and a container may refuse them. Then has_ended() checks the process
    // by its number.
    if (!entry.same_process) entry.process_handle.reset(static_cast<int>(::syscall(SYS_pidfd_open, entry.process, 0)));
    if (const auto stat = entry.process_handle.valid() ? std::nullopt : process_stat(entry.process))
      entry.start_ticks = stat->start_ticks;
    peers->peers_.push_back(std::move(entry));
  }
  return peers;
}

const std::byte *ShmPeers::import_payload(uint32_t peer, const SlotHeader &header, std::byte *scratch) {
  const Peer &from = peers_[peer];
  switch (static_cast<PayloadKind>(header.kind)) {
    case PayloadKind::in_slot:
      return nullptr;
    case PayloadKind::address:
      return from.same_process ? reinterpret_cast<const std::byte *>(header.address) : nullptr;
    case PayloadKind::mapped: {
      if (header.bytes > header.region_bytes || header.address > header.region_bytes - header.bytes) return nullptr;
      const std::byte *const base = mappings_.find(from.process, header, file_.device);
      return base != nullptr ? base + header.address : nullptr;
    }
    case PayloadKind::process:
      return read_foreign(from.process, header.address, scratch, header.bytes) ? scratch : nullptr;
  }
  return nullptr;
}

uint32_t ShmPeers::readable_kinds(uint32_t peer, bool try_mapping, bool try_cross_memory) {
  if (peer == rank_) return 0;
  const RankBoard &board = segment_->board(peer);
  if (peers_[peer].same_process) return kind_bit(PayloadKind::address);
  uint32_t kinds = 0;
  if (try_mapping && proc_has_own_numbers_) {
    const FileDescriptor file =
        open_foreign(peers_[peer].process, static_cast<int>(memory::load_acquire(board.segment_descriptor)));
    if (file.valid() && identify(file.get()) == file_) kinds |= kind_bit(PayloadKind::mapped);
  }
  if (try_cross_memory) {
    uint64_t seen = 0;
    if (read_foreign(peers_[peer].process, memory::load_acquire(board.probe_address),
                     reinterpret_cast<std::byte *>(&seen), sizeof seen) &&
        seen == memory::load_acquire(board.probe))
      kinds |= kind_bit(PayloadKind::process);
  }
  return kinds;
}

bool ShmPeers::shares_processor() {
  const int found = ::sched_getcpu();
  if (found < 0) return false;
  const uint64_t processor = static_cast<uint64_t>(found) + 1, now_ms = now_ns() / 1'000'000;
  const uint64_t own = now_ms << processor_bits | processor;
  uint64_t &noted = segment_->board(rank_).processor;  // a hint: it orders nothing
  if (memory::load_relaxed(noted) != own) memory::store_relaxed(noted, own);
  for (uint32_t peer = 0; peer < peers_.size(); ++peer) {
    if (peer == rank_) continue;
    const uint64_t theirs = memory::load_relaxed(segment_->board(peer).processor);
    // An old value does not count: the peer may have moved to another processor since its last long wait. A value can
    // be a millisecond newer than `now_ms`.
    const uint64_t age_ms = now_ms + 1 - (theirs >> processor_bits);
    if ((theirs & processor_mask) == processor && age_ms <= recent_ms) return true;
  }
  return false;
}

/// Says whether a process without a handle has ended, by its number. A process that its parent has not reaped keeps its
/// number. Once it is reaped, another process may get the number.
bool ShmPeers::has_ended(const Peer &peer) const {
  if (const auto stat = process_stat(peer.process))
    return stat->ended() || (peer.start_ticks != 0 && stat->start_ticks != peer.start_ticks);
  return ::kill(peer.process, 0) != 0 && errno == ESRCH;  // without a usable /proc, no other check is possible
}

/// Says whether a living process has let the segment go: since exec() it runs another program, without the segment's
/// descriptor and mapping. Returns false if the system does not permit the check.
bool ShmPeers::has_let_go(const Peer &peer, const RankBoard &board) const {
  if (!proc_has_own_numbers_) return false;
  std::array<char, 64> path{};
  const auto descriptor = static_cast<int>(memory::load_acquire(board.segment_descriptor));
  std::snprintf(path.data(), path.size(), "/proc/%d/fd/%d", peer.process, descriptor);
  struct stat theirs {};
  const bool there = ::stat(path.data(), &theirs) == 0;
  if (there ? FileIdentity{theirs.st_dev, theirs.st_ino} == file_ : errno != ENOENT) return false;
  return !may_map(peer.process, file_);  // a program may close the descriptor, but the mapping stays
}

std::vector<uint32_t> ShmPeers::find_dead() const {
  std::vector<uint32_t> dead;  // allocates only if a rank is dead, because every long wait calls this
  std::array<pollfd, 64> handles;
  for (size_t first = 0; first < peers_.size(); first += handles.size()) {
    const size_t count = std::min(handles.size(), peers_.size() - first);
    for (size_t i = 0; i < count; ++i)  // poll() skips a negative descriptor and sets its revents to 0
      handles[i] = {peers_[first + i].process_handle.get(), POLLIN, 0};
    static_cast<void>(::poll(handles.data(), count, 0));
    for (size_t i = 0; i < count; ++i) {
      const Peer &peer = peers_[first + i];
      const auto rank = static_cast<uint32_t>(first + i);
      if (peer.same_process) continue;
      // POLLNVAL: the program closed a descriptor of Rondo, so the process is checked by its number.
      const bool by_number = !peer.process_handle.valid() || (handles[i].revents & POLLNVAL) != 0;
      const bool ended = by_number ? has_ended(peer) : handles[i].revents != 0;
      if (ended || has_let_go(peer, segment_->board(rank))) dead.push_back(rank);
    }
  }
  return dead;
}

std::vector<int> ShmPeers::process_handles() const {
  std::vector<int> handles;
  for (const Peer &peer : peers_) handles.push_back(peer.process_handle.get());
  return handles;
}

}  // namespace rondo::shm
