// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/segment.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <new>

#include "src/base/checked.h"
#include "src/proto/memory.h"
#include "transports/shm/region.h"

namespace rondo::shm {
namespace {

constexpr uint64_t segment_magic = 0x726f'6e64'6f00'0001u;  // "rondo", layout 1

struct alignas(cache_line_bytes) SegmentHeader {
  uint64_t magic = 0;
  SegmentId id;
  uint32_t rank_count = 0;
  uint32_t channel_count = 0;
  ConnectionGeometry geometry;
  ExchangeGeometry exchange;
};
static_assert(sizeof(SegmentHeader) == cache_line_bytes);

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
  RONDO_TRY_ASSIGN(auto file, make_region_file(shape.bytes()));
  RONDO_TRY_ASSIGN(auto mapping, map_shared(file.get(), shape.bytes()));
  auto *const header = new (mapping.get().address) SegmentHeader;
  header->id = id;
  header->rank_count = shape.rank_count;
  header->channel_count = shape.channel_count;
  header->geometry = shape.geometry;
  header->exchange = shape.exchange;
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
