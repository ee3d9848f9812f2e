// SPDX-License-Identifier: Apache-2.0
#include "cuda/transport/segment.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

namespace rondo::cuda {
namespace {

constexpr uint64_t align_bytes = 256;

constexpr uint64_t aligned(uint64_t bytes) { return (bytes + align_bytes - 1) / align_bytes * align_bytes; }

Result<void> clear(const PrimaryContext &context, CuStream stream, DevicePointer address, uint64_t bytes) {
  const CudaDriver &driver = *context.get().driver;
  const ContextGuard guard(driver, context.get().context);
  RONDO_TRY(guard.status());
  RONDO_TRY(cuda_check(driver, driver.memset_d8_async(address, 0, bytes, stream), "cuMemsetD8Async"));
  return cuda_check(driver, driver.stream_synchronize(stream), "clearing a segment");
}

Result<void> copy_ends(const PrimaryContext &context, CuStream stream, DevicePointer to,
                       const std::vector<device::DeviceLinkEnds> &ends) {
  const CudaDriver &driver = *context.get().driver;
  const ContextGuard guard(driver, context.get().context);
  RONDO_TRY(guard.status());
  RONDO_TRY(cuda_check(
      driver, driver.memcpy_htod_async(to, ends.data(), ends.size() * sizeof(device::DeviceLinkEnds), stream),
      "cuMemcpyHtoDAsync"));
  return cuda_check(driver, driver.stream_synchronize(stream), "copying the ends of links");
}

Result<OpenedMemory> take_vmm(const PrimaryContext &context, const SegmentInfo &info,
                              const InfoExchange &info_exchange) {
  RONDO_TRY_ASSIGN(auto descriptor, info_exchange.take(info.ticket));
  return open_vmm(context, std::move(descriptor), info.mapped_bytes);
}

}  // namespace

uint64_t SegmentShape::connection_bytes() const { return aligned(geometry.bytes()); }
uint64_t SegmentShape::message_connection_bytes() const { return aligned(message_geometry.bytes()); }
uint64_t SegmentShape::connection_offset(uint32_t channel, uint32_t sender, uint32_t receiver) const {
  const uint32_t place = has_own_connections || sender < receiver ? sender : sender - 1;
  return (uint64_t{channel} * sender_count() + place) * connection_bytes();
}
uint64_t SegmentShape::ends_offset(uint32_t channel, uint32_t peer) const {
  return uint64_t{channel_count} * sender_count() * connection_bytes() +
         (uint64_t{channel} * rank_count + peer) * sizeof(device::DeviceLinkEnds);
}
uint64_t SegmentShape::progress_offset() const { return aligned(ends_offset(channel_count, 0)); }
uint64_t SegmentShape::barrier_offset(uint32_t which) const {
  return progress_offset() + sizeof(device::DeviceProgress) + which * cache_line_bytes;
}
uint64_t SegmentShape::place_offset() const { return aligned(barrier_offset(2)); }
uint64_t SegmentShape::message_connection_offset(uint32_t channel, uint32_t sender) const {
  return aligned(place_offset() + load_store.bytes()) +
         (uint64_t{channel} * rank_count + sender) * message_connection_bytes();
}
uint64_t SegmentShape::message_ends_offset() const { return message_connection_offset(message_channels, 0); }
uint64_t SegmentShape::regions_offset() const {
  return aligned(message_ends_offset() + uint64_t{message_channels} * rank_count * sizeof(device::DeviceLinkEnds));
}
uint64_t SegmentShape::plans_offset() const { return aligned(regions_offset() + region_bytes); }
uint64_t SegmentShape::bytes() const { return plans_offset() + plan_bytes; }

Result<Segment> Segment::connect(const PrimaryContext &context, CuStream stream, const DeviceUuid &uuid,
                                 const SegmentShape &shape, DeviceHandles handles, const SegmentLinks &links,
                                 InfoExchange &info_exchange) {
  Segment segment;
  segment.shape_ = shape;
  segment.rank_ = info_exchange.rank();
  RONDO_TRY_ASSIGN(segment.own_, SharedMemory::allocate(context, shape.bytes(), handles));
  info_exchange.hold(segment.own_);
  if (shape.cleared) RONDO_TRY(clear(context, stream, segment.address(), shape.bytes()));
  SegmentInfo own;
  own.uuid = uuid;
  own.process = own_process();
  own.device = static_cast<uint64_t>(context.get().device);
  own.address = segment.address();
  own.bytes = shape.bytes();
  own.mapped_bytes = segment.own_->bytes();
  if (handles == DeviceHandles::vmm) {
    RONDO_TRY_ASSIGN(auto descriptor, segment.own_->descriptor());
    RONDO_TRY_ASSIGN(own.ticket, info_exchange.offer(std::move(descriptor)));
  } else if (!links.one_process) {
    RONDO_TRY_ASSIGN(own.handle, segment.own_->ipc_handle());
  }
  RONDO_TRY_ASSIGN(const auto infos, info_exchange.infos(segment_key, own));
  RONDO_TRY(segment.open_peers(context, infos, links, info_exchange));
  RONDO_TRY(segment.fill_ends(context, stream, infos, links, info_exchange.rank()));
  RONDO_TRY(segment.fill_message_ends(context, stream, infos, links, info_exchange.rank()));
  return segment;
}

Result<void> Segment::suspend(const PrimaryContext &context, CuStream stream) {
  const CudaDriver &driver = *context.get().driver;
  const ContextGuard guard(driver, context.get().context);
  RONDO_TRY(guard.status());
  saved_.reset(new (std::nothrow) std::byte[shape_.bytes()]);
  if (saved_ == nullptr)
    return Error{RONDO_ERROR_OUT_OF_RESOURCES,
                 "no host memory of " + std::to_string(shape_.bytes()) + " bytes for what a device gives back"};
  RONDO_TRY(cuda_check(driver, driver.memcpy_dtoh_async(saved_.get(), address(), shape_.bytes(), stream),
                       "cuMemcpyDtoHAsync"));
  RONDO_TRY(cuda_check(driver, driver.stream_synchronize(stream), "saving a segment"));
  for (Opened &each : opened_) each.memory.close_vmm();
  own_->release();
  return {};
}

/// Restores this rank's own memory, and offers it to the peers.
Result<FdTicket> Segment::restore(const PrimaryContext &context, CuStream stream, InfoExchange &info_exchange) {
  const CudaDriver &driver = *context.get().driver;
  const ContextGuard guard(driver, context.get().context);
  RONDO_TRY(guard.status());
  RONDO_TRY(own_->restore());
  RONDO_TRY(cuda_check(driver, driver.memcpy_htod_async(address(), saved_.get(), shape_.bytes(), stream),
                       "cuMemcpyHtoDAsync"));
  RONDO_TRY(cuda_check(driver, driver.stream_synchronize(stream), "restoring a segment"));
  saved_.reset();
  RONDO_TRY_ASSIGN(auto descriptor, own_->descriptor());
  return info_exchange.offer(std::move(descriptor));
}

Result<void> Segment::resume(const PrimaryContext &context, CuStream stream, InfoExchange &info_exchange) {
  const auto own = restore(context, stream, info_exchange);
  if (!own.ok()) return info_exchange.outcome(segment_key, own.error());
  RONDO_TRY_ASSIGN(const auto tickets, info_exchange.infos(segment_key, own.value()));
  for (Opened &each : opened_) {
    RONDO_TRY_ASSIGN(auto descriptor, info_exchange.take(tickets[each.peer]));
    const auto opened = reopen_vmm(context, std::move(descriptor), each.memory);
    if (!opened.ok()) return about_rank(each.peer, "opening the memory", opened.error());
  }
  return {};
}

Result<void> Segment::check_links(const Plan &plan) const {
  for (const Schedule &schedule : plan.schedules)
    for (const uint32_t peer : schedule.peers)
      if ((peers_[peer] == 0 && !through_host_[peer]) || (peer == rank_ && !shape_.has_own_connections))
        return Error{RONDO_ERROR_INTERNAL,
                     std::string(rondo_algorithm_string(plan.choice.algorithm)) + " has a link with rank " +
                         std::to_string(peer) +
                         ", whose device was not connected with this rank's; please report this, with RONDO_LOG=debug",
                     -1, static_cast<int32_t>(peer)};
  return {};
}

/// Opens the segment of a rank that is another thread of this process. Its addresses are valid here, too.
Result<DevicePointer> Segment::open_neighbour(const PrimaryContext &context, const SegmentInfo &info, uint32_t peer) {
  if (const auto device = static_cast<CuDevice>(info.device); device != context.get().device) {
    auto theirs = open_peer_device(context, device);
    if (!theirs.ok()) return about_rank(peer, "reaching the memory", theirs.error());
    peer_contexts_.push_back(std::move(theirs).value());
  }
  auto memory = SharedMemory::find(info.address);
  if (memory == nullptr)
    return about_rank(peer, "using the memory", Error{RONDO_ERROR_REMOTE, "it gave up while the ranks connected"});
  held_.push_back(std::move(memory));
  return info.address;
}

/// Opens the segment of any rank of this node.
Result<DevicePointer> Segment::open_peer(const PrimaryContext &context, const SegmentInfo &info, const SegmentInfo &own,
                                         uint32_t peer, InfoExchange &info_exchange) {
  if (info.process == own.process && (info.uuid == own.uuid || !own_->is_vmm()))
    return open_neighbour(context, info, peer);
  auto opened = own_->is_vmm() ? take_vmm(context, info, info_exchange) : open_ipc(context, info.handle);
  if (!opened.ok()) return about_rank(peer, "opening the memory", opened.error());
  opened_.push_back({peer, std::move(opened).value()});
  return opened_.back().memory.address;
}

Result<void> Segment::open_peers(const PrimaryContext &context, const std::vector<SegmentInfo> &infos,
                                 const SegmentLinks &links, InfoExchange &info_exchange) {
  const uint32_t rank = info_exchange.rank();
  const SegmentInfo &own = infos[rank];
  const bool wants_all = links.permitted.empty() || shape_.load_store.rank_count != 0 || shape_.message_channels != 0;
  peers_.assign(infos.size(), 0);
  for (uint32_t peer = 0; peer < infos.size(); ++peer) {
    const SegmentInfo &info = infos[peer];
    if (info.bytes != own.bytes)
      return Error{RONDO_ERROR_MISMATCH, "ranks " + std::to_string(rank) + " and " + std::to_string(peer) +
                                             " have segments of different sizes on their devices"};
    through_host_.push_back(links.network->reaches(peer) || (links.host != nullptr && links.host->reaches(peer)));
    // Ranks that share a kernel name their group by the first rank's segment, so they open that segment.
    const bool same_device = info.process == own.process && info.uuid == own.uuid;
    if (through_host_[peer] || !(wants_all || same_device || links.permitted[peer])) continue;
    RONDO_TRY_ASSIGN(peers_[peer], open_peer(context, info, own, peer, info_exchange));
  }
  return {};
}

std::pair<ConnectionView, ConnectionView> Segment::views_of(const std::vector<SegmentInfo> &infos,
                                                            const SegmentLinks &links, uint32_t rank, uint32_t peer,
                                                            uint32_t channel, bool of_messages) const {
  const ConnectionGeometry &geometry = of_messages ? shape_.message_geometry : shape_.geometry;
  const auto view = [&](DevicePointer base) { return ConnectionView{reinterpret_cast<std::byte *>(base), geometry}; };
  if (links.host != nullptr && links.host->reaches(peer)) {  // heads are in the host's memory, like the whole link
    const auto in_host = [&](uint32_t sender, uint32_t receiver) {
      return view(of_messages ? links.host->message_connection(channel, sender, receiver)
                              : links.host->connection(channel, sender, receiver));
    };
    return {in_host(rank, peer), in_host(peer, rank)};
  }
  const auto offset = [&](uint32_t sender, uint32_t receiver) {
    return of_messages ? shape_.message_connection_offset(channel, sender)
                       : shape_.connection_offset(channel, sender, receiver);
  };
  ConnectionView out = view(peers_[peer] + offset(rank, peer)), in = view(address() + offset(peer, rank));
  // A receiver may store a head after the sender has left, so the head must not be in the sender's CUDA IPC memory.
  if (own_->is_vmm() || infos[peer].process == infos[rank].process) std::swap(out.credit, in.credit);
  return {out, in};
}

Result<void> Segment::fill_ends(const PrimaryContext &context, CuStream stream, const std::vector<SegmentInfo> &infos,
                                const SegmentLinks &links, uint32_t rank) {
  std::vector<device::DeviceLinkEnds> ends(size_t{shape_.channel_count} * shape_.rank_count);
  for (uint32_t channel = 0; channel < shape_.channel_count; ++channel)
    for (uint32_t peer = 0; peer < shape_.rank_count; ++peer) {
      device::DeviceLinkEnds &it = ends[size_t{channel} * shape_.rank_count + peer];
      it.peer = peer;
      if (links.network->reaches(peer)) {
        it.simple_out = links.network->sender(channel, peer);
        it.simple_in = links.network->receiver(channel, peer);
        continue;
      }
      if (peers_[peer] == 0 && !through_host_[peer]) continue;
      if (peer == rank && !shape_.has_own_connections) continue;
      it.orders = infos[peer].uuid == infos[rank].uuid ? 0 : 1;
      const auto [out, in] = views_of(infos, links, rank, peer, channel, false);
      it.simple_out = SimpleSender(out);
      it.simple_in = SimpleReceiver(in);
      it.ll_out = LlSender(out);
      it.ll_in = LlReceiver(in);
    }
  return copy_ends(context, stream, ends_address(0, 0), ends);
}

Result<void> Segment::fill_message_ends(const PrimaryContext &context, CuStream stream,
                                        const std::vector<SegmentInfo> &infos, const SegmentLinks &links,
                                        uint32_t rank) {
  if (shape_.message_channels == 0) return {};
  std::vector<device::DeviceLinkEnds> ends(size_t{shape_.message_channels} * shape_.rank_count);
  for (uint32_t channel = 0; channel < shape_.message_channels; ++channel)
    for (uint32_t peer = 0; peer < shape_.rank_count; ++peer) {
      device::DeviceLinkEnds &it = ends[size_t{channel} * shape_.rank_count + peer];
      it.peer = peer;
      if (links.network->reaches(peer)) {
        it.simple_out = links.network->message_sender(peer);
        it.simple_in = links.network->message_receiver(peer);
        continue;
      }
      const auto [out, in] = views_of(infos, links, rank, peer, channel, true);
      it.simple_out = SimpleSender(out);
      it.simple_in = SimpleReceiver(in);
    }
  return copy_ends(context, stream, message_ends_address(), ends);
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
