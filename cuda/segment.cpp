// SPDX-License-Identifier: Apache-2.0
#include "cuda/segment.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <span>
#include <string>

#include "cuda/meeting.h"

namespace rondo::cuda {
namespace {

constexpr uint64_t align_bytes = 256;

constexpr uint64_t aligned(uint64_t bytes) { return (bytes + align_bytes - 1) / align_bytes * align_bytes; }

/// Who holds a segment's memory: its rank, and the threads of its process that write into it. A rank that has left does
/// not take it away from one that still works off what it had enqueued.
struct HeldMemory {
  PrimaryContext context;  ///< gone after the memory
  DeviceMemory memory;
};

/// Of this process, by address. Never destroyed: a communicator may be left to the process's end.
struct Held {
  std::mutex mutex;
  std::map<DevicePointer, std::weak_ptr<const HeldMemory>> memories;
};

Held &held() {
  static Held *const all = new Held;
  return *all;
}

Result<std::shared_ptr<const HeldMemory>> allocate_held(const PrimaryContext &context, uint64_t bytes) {
  auto made = std::make_shared<HeldMemory>();
  RONDO_TRY_ASSIGN(made->context, retain_primary_context(*context.get().driver, context.get().device));
  RONDO_TRY_ASSIGN(made->memory, allocate_device_memory(context, bytes));
  const std::lock_guard lock(held().mutex);
  held().memories[made->memory.get().object] = made;
  return std::shared_ptr<const HeldMemory>(std::move(made));
}

/// Null: its rank has given up meanwhile.
std::shared_ptr<const HeldMemory> find_held(DevicePointer address) {
  const std::lock_guard lock(held().mutex);
  std::erase_if(held().memories, [](const auto &entry) { return entry.second.expired(); });
  const auto found = held().memories.find(address);
  return found == held().memories.end() ? nullptr : found->second.lock();
}

Result<void> clear(const PrimaryContext &context, CuStream stream, DevicePointer address, uint64_t bytes) {
  const CudaDriver &driver = *context.get().driver;
  const ContextGuard guard(driver, context.get().context);
  RONDO_TRY(guard.status());
  RONDO_TRY(cuda_check(driver, driver.memset_d8_async(address, 0, bytes, stream), "cuMemsetD8Async"));
  return cuda_check(driver, driver.stream_synchronize(stream), "clearing a segment");
}

}  // namespace

uint64_t SegmentShape::connection_bytes() const { return aligned(geometry.bytes()); }
uint64_t SegmentShape::connection_offset(uint32_t channel, uint32_t sender) const {
  return (uint64_t{channel} * rank_count + sender) * connection_bytes();
}
uint64_t SegmentShape::ends_offset(uint32_t channel, uint32_t peer) const {
  return connection_offset(channel_count, 0) + (uint64_t{channel} * rank_count + peer) * sizeof(device::DeviceLinkEnds);
}
uint64_t SegmentShape::progress_offset() const { return aligned(ends_offset(channel_count, 0)); }
uint64_t SegmentShape::barrier_offset(uint32_t which) const {
  return progress_offset() + sizeof(device::DeviceProgress) + which * cache_line_bytes;
}
uint64_t SegmentShape::plans_offset() const { return aligned(barrier_offset(2)); }
uint64_t SegmentShape::bytes() const { return plans_offset() + plan_bytes; }

Result<Segment> Segment::connect(const PrimaryContext &context, CuStream stream, const DeviceUuid &uuid,
                                 const SegmentShape &shape, uint32_t rank, const std::string &key_prefix, Store &store,
                                 uint64_t deadline_ns) {
  Segment segment;
  segment.shape_ = shape;
  const CudaDriver &driver = *context.get().driver;
  RONDO_TRY_ASSIGN(const auto own_memory, allocate_held(context, shape.bytes()));
  segment.address_ = own_memory->memory.get().object;
  segment.held_.push_back(own_memory);
  if (shape.cleared) RONDO_TRY(clear(context, stream, segment.address(), shape.bytes()));
  SegmentCard own;
  own.uuid = uuid;
  own.process = own_process();
  own.device = static_cast<uint64_t>(context.get().device);
  own.address = segment.address();
  own.bytes = shape.bytes();
  {
    const ContextGuard guard(driver, context.get().context);
    RONDO_TRY(guard.status());
    RONDO_TRY(cuda_check(driver, driver.ipc_get_mem_handle(&own.handle, own.address), "cuIpcGetMemHandle"));
  }
  RONDO_TRY_ASSIGN(const auto parts, gather_outcomes(store, key_prefix + segment_key, rank, shape.rank_count,
                                                     bytes_of_card(own), deadline_ns));
  std::vector<SegmentCard> cards(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].size() != sizeof(SegmentCard))
      return Error{RONDO_ERROR_MISMATCH, "rank " + std::to_string(i) + " runs another version of Rondo"};
    std::memcpy(&cards[i], parts[i].data(), sizeof(SegmentCard));
  }
  RONDO_TRY(segment.open_peers(context, rank, cards));
  RONDO_TRY(segment.fill_ends(context, stream, rank));
  return segment;
}

Result<void> Segment::open_peers(const PrimaryContext &context, uint32_t rank, const std::vector<SegmentCard> &cards) {
  const CudaDriver &driver = *context.get().driver;
  const SegmentCard &own = cards[rank];
  for (uint32_t peer = 0; peer < cards.size(); ++peer) {
    const SegmentCard &card = cards[peer];
    const bool same_process = card.process == own.process;
    const bool same_device = std::memcmp(&card.uuid, &own.uuid, sizeof own.uuid) == 0;
    if (card.bytes != own.bytes)
      return Error{RONDO_ERROR_MISMATCH, "ranks " + std::to_string(rank) + " and " + std::to_string(peer) +
                                             " have segments of different sizes on their devices"};
    if (same_device && same_process && peer != rank) ++neighbour_count_;
    if (same_process && !same_device) {
      RONDO_TRY_ASSIGN(PrimaryContext theirs, retain_primary_context(driver, static_cast<CuDevice>(card.device)));
      const ContextGuard guard(driver, context.get().context);
      RONDO_TRY(guard.status());
      const CuStatus enabled = driver.ctx_enable_peer_access(theirs.get().context, 0);
      if (enabled != CuStatus::success && enabled != CuStatus::peer_access_already_enabled)
        return cuda_error(
            driver, enabled,
            "access from device " + std::to_string(own.device) + " to device " + std::to_string(card.device));
      peer_contexts_.push_back(std::move(theirs));
    }
    if (same_process) {
      auto memory = find_held(card.address);
      if (memory == nullptr)
        return Error{RONDO_ERROR_REMOTE, "rank " + std::to_string(peer) + " gave up while the ranks connected"};
      held_.push_back(std::move(memory));
      peers_.push_back(card.address);
      continue;
    }
    const ContextGuard guard(driver, context.get().context);
    RONDO_TRY(guard.status());
    DevicePointer mapped = 0;
    const CuStatus opened = driver.ipc_open_mem_handle(&mapped, card.handle, ipc_lazy_enable_peer_access);
    if (opened != CuStatus::success)
      return cuda_error(
          driver, opened,
          "opening the memory of rank " + std::to_string(peer) + " (process " + std::to_string(card.process.pid) + ")");
    opened_.push_back(IpcMemory({&driver, context.get().context, mapped}));
    peers_.push_back(mapped);
  }
  return {};
}

Result<void> Segment::fill_ends(const PrimaryContext &context, CuStream stream, uint32_t rank) {
  std::vector<device::DeviceLinkEnds> ends(size_t{shape_.channel_count} * shape_.rank_count);
  const auto view = [&](DevicePointer segment, uint32_t channel, uint32_t sender) {
    return ConnectionView{reinterpret_cast<std::byte *>(segment + shape_.connection_offset(channel, sender)),
                          shape_.geometry};
  };
  for (uint32_t channel = 0; channel < shape_.channel_count; ++channel)
    for (uint32_t peer = 0; peer < shape_.rank_count; ++peer) {
      device::DeviceLinkEnds &it = ends[size_t{channel} * shape_.rank_count + peer];
      it.peer = peer;
      it.simple_out = SimpleSender(view(peers_[peer], channel, rank));
      it.simple_in = SimpleReceiver(view(address(), channel, peer));
      it.ll_out = LlSender(view(peers_[peer], channel, rank));
      it.ll_in = LlReceiver(view(address(), channel, peer));
    }
  const CudaDriver &driver = *context.get().driver;
  const ContextGuard guard(driver, context.get().context);
  RONDO_TRY(guard.status());
  RONDO_TRY(cuda_check(
      driver,
      driver.memcpy_htod_async(ends_address(0, 0), ends.data(), ends.size() * sizeof(device::DeviceLinkEnds), stream),
      "cuMemcpyHtoDAsync"));
  return cuda_check(driver, driver.stream_synchronize(stream), "copying the ends of links");
}

std::optional<uint64_t> Arena::take(uint64_t bytes) {
  bytes = aligned(std::max<uint64_t>(bytes, 1));
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < bytes) continue;
    const auto [offset, all] = *it;
    free_.erase(it);
    if (all > bytes) free_.emplace(offset + bytes, all - bytes);
    return offset;
  }
  return std::nullopt;
}

void Arena::give_back(uint64_t offset, uint64_t bytes) {
  bytes = aligned(std::max<uint64_t>(bytes, 1));
  const auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    free_.erase(next);
  }
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

}  // namespace rondo::cuda
