// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "src/base/arithmetic.h"
#include "src/base/clock.h"
#include "src/base/shared_file.h"
#include "src/proto/memory.h"

namespace rondo::shm {
namespace {

constexpr uint64_t segment_magic = 0x726f'6e64'6f00'000au;  // "rondo", layout 10
constexpr uint64_t layout_mask = 0xFFFF;

Error not_a_segment(const std::string &why) {
  return invalid_argument("this is not a communicator's shared segment: " + why);
}

/// Checks that the file can be read safely. If it shrinks, or is backed by huge pages and none is left, reading kills
/// the reader.
Result<void> check_file(int descriptor) {
  struct statfs system {};
  if (::fstatfs(descriptor, &system) != 0 || system.f_type != TMPFS_MAGIC)
    return not_a_segment("it is not a memfd of ordinary pages");
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return not_a_segment("its size is not sealed");
  return {};
}

/// Reads the shape of an unknown process's segment. That process may change the file meanwhile, so each checked value
/// is read once.
Result<SegmentShape> observed_shape(int descriptor, size_t file_bytes) {
  uint64_t magic = 0;
  SegmentHeader header;  // read after the magic number, which was written last
  if (::pread(descriptor, &magic, sizeof magic, 0) != sizeof magic ||
      ::pread(descriptor, static_cast<void *>(&header), sizeof header, 0) != sizeof header)
    return not_a_segment("it cannot be read");
  if (magic == 0) return Error{RONDO_NOT_READY, "the communicator is being made; ask again"};
  if ((magic & ~layout_mask) != (segment_magic & ~layout_mask)) return not_a_segment("it does not begin as one");
  if (magic != segment_magic)
    return Error{RONDO_ERROR_MISMATCH, "the communicator's memory has layout " + std::to_string(magic & layout_mask) +
                                           " and this version of Rondo reads layout " +
                                           std::to_string(segment_magic & layout_mask) +
                                           "; use the command of the version that the job runs"};
  const uint64_t rank_count = header.rank_count;
  SegmentShape shape;
  shape.rank_count = static_cast<uint32_t>(std::min<uint64_t>(rank_count, observed_rank_count_max));
  if (rank_count == 0 || rank_count > observed_rank_count_max || shape.exchange_offset() > file_bytes)
    return not_a_segment("it says " + std::to_string(rank_count) + " ranks and has " + std::to_string(file_bytes) +
                         " bytes");
  return shape;
}

/// Maps zeros over the parts of a file that have no pages yet. Without that, reading a part would allocate its pages,
/// and a sparse file of a few bytes could use up all memory. Data written to such a part later stays invisible.
Result<void> cover_holes(const Mapping &mapping, int descriptor) {
  const auto [address, bytes] = mapping.get();
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (size_t at = 0; at < bytes;) {  // each round advances by at least a page
    const off_t data = ::lseek(descriptor, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno != ENXIO) return system_error("lseek of a communicator's shared segment", errno);
    const size_t begin = data < 0 ? bytes : std::min(bytes, static_cast<size_t>(data) / page * page);
    if (begin > at && ::mmap(address + at, begin - at, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                          MAP_FAILED)
      return system_error("mmap of " + std::to_string(begin - at) + " bytes", errno);
    if (begin == bytes) break;
    const off_t hole = ::lseek(descriptor, static_cast<off_t>(begin), SEEK_HOLE);
    at = std::max(begin + page, hole < 0 ? bytes : round_up(static_cast<size_t>(hole), page));
  }
  return {};
}

}  // namespace

size_t SegmentShape::boards_offset() const { return sizeof(SegmentHeader) + sizeof(SharedFailure); }

size_t SegmentShape::message_boards_offset() const { return boards_offset() + rank_count * sizeof(RankBoard); }

size_t SegmentShape::exchange_offset() const {
  return round_up<size_t>(message_boards_offset() + rank_count * sizeof(MessageBoard), 4096);
}

size_t SegmentShape::connections_offset() const { return exchange_offset() + exchange.bytes(); }

size_t SegmentShape::bytes() const {
  return connections_offset() +
         size_t{channel_count} * rank_count * rank_count * round_up<size_t>(geometry.bytes(), 4096);
}

size_t SegmentShape::pair_boards_bytes() const {
  return round_up<size_t>(size_t{rank_count} * peer_count() * sizeof(PairBoard), 4096);
}

size_t SegmentShape::signals_offset() const {
  return pair_boards_bytes() + size_t{rank_count} * rank_count * round_up<size_t>(messages().bytes(), 4096);
}

size_t SegmentShape::message_bytes() const {
  return signals_offset() +
         round_up<size_t>(size_t{rank_count} * rank_count * signal_count * sizeof(uint64_t), 4096);
}

Result<Mapping> map_shared(int descriptor, size_t bytes, size_t offset) {
  void *const address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, static_cast<off_t>(offset));
  if (address == MAP_FAILED) return system_error("mmap of " + std::to_string(bytes) + " shared bytes", errno);
  Mapping mapping({static_cast<std::byte *>(address), bytes});
  keep_from_children(mapping);
  return mapping;
}

Result<std::shared_ptr<Segment>> Segment::create(const SegmentId &id, const SegmentShape &shape) {
  RONDO_TRY_ASSIGN(auto file, make_shared_file(shape.bytes() + shape.message_bytes(), segment_file_name));
  RONDO_TRY_ASSIGN(auto mapping, map_shared(file.get(), shape.bytes()));
  auto *const header = new (mapping.get().address) SegmentHeader;
  header->id = id;
  header->rank_count = shape.rank_count;
  header->channel_count = shape.channel_count;
  header->geometry = shape.geometry;
  header->exchange = shape.exchange;
  header->message_slot_bytes = shape.message_slot_bytes;
  header->message_slot_count = shape.message_slot_count;
  const TickSource source = best_tick_source();
  const TickMark made = mark_ticks(source);
  header->tick_source = static_cast<uint64_t>(source);
  header->made_ticks = made.ticks;
  header->made_ns = made.at_ns;
  memory::store_release(header->magic, segment_magic);  // pairs with load_acquire in attach()
  return std::shared_ptr<Segment>(new Segment(std::move(file), std::move(mapping), shape));
}

Result<std::shared_ptr<Segment>> Segment::attach(FileDescriptor descriptor, const SegmentId &id,
                                                 const SegmentShape &shape) {
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) return system_error("fstat of the shared segment", errno);
  const size_t file_bytes = shape.bytes() + shape.message_bytes();
  if (static_cast<size_t>(status.st_size) != file_bytes)
    return Error{RONDO_ERROR_INTERNAL, "the shared segment has " + std::to_string(status.st_size) +
                                           " bytes instead of " + std::to_string(file_bytes)};
  RONDO_TRY_ASSIGN(auto mapping, map_shared(descriptor.get(), shape.bytes()));
  const auto *const header = reinterpret_cast<const SegmentHeader *>(mapping.get().address);
  if (memory::load_acquire(header->magic) != segment_magic || header->id != id ||
      header->rank_count != shape.rank_count || header->channel_count != shape.channel_count ||
      header->geometry != shape.geometry || header->exchange != shape.exchange ||
      header->message_slot_bytes != shape.message_slot_bytes ||
      header->message_slot_count != shape.message_slot_count)
    return Error{RONDO_ERROR_INTERNAL, "the shared segment that was handed over is not this communicator's"};
  return std::shared_ptr<Segment>(new Segment(std::move(descriptor), std::move(mapping), shape));
}

Result<std::shared_ptr<const Segment>> Segment::observe(FileDescriptor descriptor) {
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) return system_error("fstat of the shared segment", errno);
  const auto file_bytes = static_cast<size_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || file_bytes < sizeof(SegmentHeader)) return not_a_segment("it is too short");
  RONDO_TRY(check_file(descriptor.get()));
  RONDO_TRY_ASSIGN(const SegmentShape shape, observed_shape(descriptor.get(), file_bytes));
  const size_t bytes = shape.exchange_offset();  // an observer does not read what follows
  void *const address = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (address == MAP_FAILED) return system_error("mmap of " + std::to_string(bytes) + " bytes", errno);
  Mapping mapping({static_cast<std::byte *>(address), bytes});
  RONDO_TRY(cover_holes(mapping, descriptor.get()));
  return std::shared_ptr<const Segment>(new Segment(std::move(descriptor), std::move(mapping), shape));
}

Result<uint64_t> Segment::used_bytes() const {
  constexpr uint64_t block_bytes = 512;  // unit of st_blocks on every file system
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) != 0) return system_error("fstat of the shared segment", errno);
  return static_cast<uint64_t>(status.st_blocks) * block_bytes;
}

SegmentHeader &Segment::header() const { return *reinterpret_cast<SegmentHeader *>(at(0)); }

SharedFailure &Segment::failure() const { return *reinterpret_cast<SharedFailure *>(at(sizeof(SegmentHeader))); }

RankBoard &Segment::board(uint32_t rank) const {
  return reinterpret_cast<RankBoard *>(at(shape_.boards_offset()))[rank];
}

MessageBoard &Segment::message_board(uint32_t rank) const {
  return reinterpret_cast<MessageBoard *>(at(shape_.message_boards_offset()))[rank];
}

PairBoard &Segment::pair_board(uint32_t rank, uint32_t peer) const {
  auto *const boards = reinterpret_cast<PairBoard *>(messages_.load(std::memory_order_acquire));  // see open_messages()
  return boards[size_t{rank} * shape_.peer_count() + peer];
}

ConnectionView Segment::message_connection(uint32_t from, uint32_t to) const {
  const size_t index = size_t{from} * shape_.rank_count + to;
  std::byte *const first = messages_.load(std::memory_order_acquire) + shape_.pair_boards_bytes();
  return {first + index * round_up<size_t>(shape_.messages().bytes(), 4096), shape_.messages()};
}

uint64_t *Segment::signals(uint32_t from, uint32_t to) const {
  std::byte *const first = messages_.load(std::memory_order_acquire) + shape_.signals_offset();  // see open_messages()
  return reinterpret_cast<uint64_t *>(first) + (size_t{from} * shape_.rank_count + to) * signal_count;
}

Result<void> Segment::open_messages() {
  if (messages_.load(std::memory_order_acquire) != nullptr) return {};
  const std::lock_guard lock(opening_);
  if (messages_.load(std::memory_order_relaxed) != nullptr) return {};  // relaxed: stored under the lock
  RONDO_TRY_ASSIGN(message_mapping_, map_shared(descriptor_.get(), shape_.message_bytes(), shape_.bytes()));
  messages_.store(message_mapping_.get().address, std::memory_order_release);  // pairs with every acquire of it
  return {};
}

uint64_t Segment::mapped_bytes() const {
  const bool opened = messages_.load(std::memory_order_acquire) != nullptr;
  return shape_.bytes() + (opened ? shape_.message_bytes() : 0);
}

ConnectionView Segment::connection(uint32_t channel, uint32_t from, uint32_t to) const {
  const size_t index = (size_t{channel} * shape_.rank_count + from) * shape_.rank_count + to;
  return {at(shape_.connections_offset() + index * round_up<size_t>(shape_.geometry.bytes(), 4096)), shape_.geometry};
}

}  // namespace rondo::shm
