// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <new>

#include "src/base/checked.h"
#include "src/base/ticks.h"
#include "src/proto/memory.h"
#include "transports/shm/region.h"

namespace rondo::shm {
namespace {

constexpr uint64_t segment_magic = 0x726f'6e64'6f00'0003u;  // "rondo", layout 3
constexpr uint64_t layout_mask = 0xFFFF;

Error not_a_segment(const std::string &why) {
  return invalid_argument("this is not a communicator's shared segment: " + why);
}

/// A file that could shrink could kill its reader.
Result<void> check_seals(int descriptor) {
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return not_a_segment("its size is not sealed");
  return {};
}

/// Of memory that a stranger may change meanwhile: what is checked is read once.
Result<SegmentShape> observed_shape(const SegmentHeader &header, size_t file_bytes) {
  const uint64_t magic = memory::load_acquire(header.magic);  // pairs with store_release in create()
  if (magic == 0) return Error{RONDO_NOT_READY, "the communicator is being made; ask again"};
  if ((magic & ~layout_mask) != (segment_magic & ~layout_mask)) return not_a_segment("it begins otherwise");
  if (magic != segment_magic)
    return Error{RONDO_ERROR_MISMATCH, "the communicator's memory has layout " + std::to_string(magic & layout_mask) +
                                           " and this version of Rondo reads layout " +
                                           std::to_string(segment_magic & layout_mask) +
                                           "; use the command of the version that the job runs"};
  const uint64_t rank_count = memory::load_relaxed(header.rank_count);
  SegmentShape shape;
  shape.rank_count = static_cast<uint32_t>(std::min<uint64_t>(rank_count, UINT32_MAX));
  if (rank_count == 0 || shape.exchange_offset() > file_bytes)
    return not_a_segment("it says " + std::to_string(rank_count) + " ranks and has " + std::to_string(file_bytes) +
                         " bytes");
  return shape;
}

}  // namespace

size_t SegmentShape::boards_offset() const { return sizeof(SegmentHeader) + sizeof(SharedFailure); }

size_t SegmentShape::exchange_offset() const {
  return round_up<size_t>(boards_offset() + rank_count * sizeof(RankBoard), 4096);
}

size_t SegmentShape::connections_offset() const { return exchange_offset() + exchange.bytes(); }

size_t SegmentShape::bytes() const {
  return connections_offset() +
         size_t{channel_count} * rank_count * rank_count * round_up<size_t>(geometry.bytes(), 4096);
}

Result<Mapping> map_shared(int descriptor, size_t bytes) {
  void *const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return system_error("mmap of " + std::to_string(bytes) + " shared bytes", errno);
  return Mapping({static_cast<std::byte *>(address), bytes});
}

Result<std::shared_ptr<Segment>> Segment::create(const SegmentId &id, const SegmentShape &shape) {
  RONDO_TRY_ASSIGN(auto file, make_region_file(shape.bytes(), segment_file_name));
  RONDO_TRY_ASSIGN(auto mapping, map_shared(file.get(), shape.bytes()));
  auto *const header = new (mapping.get().address) SegmentHeader;
  header->id = id;
  header->rank_count = shape.rank_count;
  header->channel_count = shape.channel_count;
  header->geometry = shape.geometry;
  header->exchange = shape.exchange;
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
  if (static_cast<size_t>(status.st_size) != shape.bytes())
    return Error{RONDO_ERROR_INTERNAL, "the shared segment has " + std::to_string(status.st_size) +
                                           " bytes instead of " + std::to_string(shape.bytes())};
  RONDO_TRY_ASSIGN(auto mapping, map_shared(descriptor.get(), shape.bytes()));
  const auto *const header = reinterpret_cast<const SegmentHeader *>(mapping.get().address);
  if (memory::load_acquire(header->magic) != segment_magic || header->id != id ||
      header->rank_count != shape.rank_count || header->channel_count != shape.channel_count ||
      header->geometry != shape.geometry || header->exchange != shape.exchange)
    return Error{RONDO_ERROR_INTERNAL, "the shared segment that was handed over is not this communicator's"};
  return std::shared_ptr<Segment>(new Segment(std::move(descriptor), std::move(mapping), shape));
}

Result<std::shared_ptr<const Segment>> Segment::observe(FileDescriptor descriptor) {
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) return system_error("fstat of the shared segment", errno);
  const auto file_bytes = static_cast<size_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || file_bytes < sizeof(SegmentHeader)) return not_a_segment("it is too short");
  RONDO_TRY(check_seals(descriptor.get()));
  void *const address = ::mmap(nullptr, file_bytes, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (address == MAP_FAILED) return system_error("mmap of " + std::to_string(file_bytes) + " bytes", errno);
  Mapping mapping({static_cast<std::byte *>(address), file_bytes});
  const auto &header = *static_cast<const SegmentHeader *>(address);
  RONDO_TRY_ASSIGN(const SegmentShape shape, observed_shape(header, file_bytes));
  return std::shared_ptr<const Segment>(new Segment(std::move(descriptor), std::move(mapping), shape));
}

Result<uint64_t> Segment::used_bytes() const {
  constexpr uint64_t block_bytes = 512;  // of st_blocks, whatever the file system
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) != 0) return system_error("fstat of the shared segment", errno);
  return static_cast<uint64_t>(status.st_blocks) * block_bytes;
}

SegmentHeader &Segment::header() const { return *reinterpret_cast<SegmentHeader *>(at(0)); }

SharedFailure &Segment::failure() const { return *reinterpret_cast<SharedFailure *>(at(sizeof(SegmentHeader))); }

RankBoard &Segment::board(uint32_t rank) const {
  return reinterpret_cast<RankBoard *>(at(shape_.boards_offset()))[rank];
}

ConnectionView Segment::connection(uint32_t channel, uint32_t from, uint32_t to) const {
  const size_t index = (size_t{channel} * shape_.rank_count + from) * shape_.rank_count + to;
  return {at(shape_.connections_offset() + index * round_up<size_t>(shape_.geometry.bytes(), 4096)), shape_.geometry};
}

void SegmentTable::add(const SegmentId &id, const std::shared_ptr<Segment> &segment) {
  const std::lock_guard lock(mutex_);
  std::erase_if(segments_, [](const auto &entry) { return entry.second.expired(); });
  segments_[id] = segment;
}

std::shared_ptr<Segment> SegmentTable::find(const SegmentId &id) {
  const std::lock_guard lock(mutex_);
  const auto found = segments_.find(id);
  return found == segments_.end() ? nullptr : found->second.lock();
}

}  // namespace rondo::shm
