// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/segment_memory.h"

#include <algorithm>

#include "cuda/executors/connection_shape.h"
#include "cuda/executors/copy_progress.h"
#include "cuda/executors/load_store_shape.h"
#include "cuda/transport/regions.h"

namespace rondo::cuda {

namespace {

constexpr uint32_t copy_channel_count = 1;  // a single copy already uses all of a device's link

/// Sets the connections for messages on several nodes. A rank has one link to each rank of another node. The other
/// connections have slots of the same size, since a kernel knows slots of one size.
void use_message_links(const PlacedRequest &request, SegmentShape &shape) {
  if (request.rank_count > batch_ranks_max) return;
  const auto nodes = request.group.node_of_ranks();
  const auto far = std::find_if(nodes.begin(), nodes.end(), [&](uint32_t node) { return node != nodes[request.rank]; });
  shape.message_channels = 1;
  shape.message_geometry = request.links->outgoing_messages(static_cast<uint32_t>(far - nodes.begin())).geometry;
}

SegmentShape shape_at(const PlacedRequest &request, const ChannelCounts &channels, bool has_load_store,
                      uint32_t halvings) {
  SegmentShape shape;
  shape.rank_count = request.rank_count;
  shape.channel_count = channels.connections;
  if (has_load_store) shape.load_store = choose_load_store(request, channels.load_store, halvings);
  if (shape.load_store.rank_count != 0) shape.buffers = place_of_buffers(request);
  shape.geometry = choose_slots(request, shape.channel_count, shape.buffers, halvings);
  shape.message_channels = choose_message_channels(request);
  shape.message_geometry = choose_message_slots(request, shape.buffers, halvings);
  if (!request.on_one_node()) use_message_links(request, shape);
  shape.plan_bytes = choose_plan_bytes(shape.rank_count, shape.channel_count, halvings);
  if (request.shares_regions) shape.region_bytes = Regions::table_bytes(shape.rank_count);
  return shape;
}

/// Adds the connections for messages that are copied: one with each rank for messages, and one for the blocks of
/// collectives. Their memory is halved `halvings` times.
void add_copied_messages(SegmentShape &shape, const PlacedRequest &request, uint32_t halvings) {
  constexpr uint32_t channel_count = 2;
  // The bytes of all slots for messages of a rank. With a frugal request of two ranks, there are fewer slots, of nearly
  // the same size. Smaller slots would be slow, because a copy takes as long to begin as to move many bytes.
  const bool is_frugal_pair = is_frugal(request) && request.rank_count == 2;
  const uint64_t memory_bytes = is_frugal_pair ? 2016 << 10 : 4 << 20;
  constexpr uint64_t bytes_max = 256 << 10, bytes_min = 4 << 10;
  if (choose_message_channels(request) == 0) return;
  shape.message_channels = channel_count;
  const Settings &asked = request.settings;
  const uint32_t slot_count = asked.slot_count != 0 ? asked.slot_count : is_frugal_pair ? 2 : 4;
  const uint64_t share = (memory_bytes >> halvings) / channel_count / request.rank_count / slot_count;
  const uint64_t slot_bytes = std::clamp(share / bytes_min * bytes_min, bytes_min, bytes_max);
  shape.message_geometry = {slot_count, static_cast<uint32_t>(asked.slot_bytes != 0 ? asked.slot_bytes : slot_bytes),
                            0};
}

SegmentShape copy_shape_at(const PlacedRequest &request, uint32_t halvings) {
  SegmentShape shape;
  shape.rank_count = request.rank_count;
  const uint32_t asked = request.on_one_node() ? request.settings.channels : request.links->channel_count();
  shape.channel_count = asked != 0 ? asked : copy_channel_count;
  shape.geometry = choose_copy_slots(request, shape.channel_count, halvings);
  // Schedules of two ranks use no link from a rank to itself. On several nodes, exchanges of blocks use such a link.
  shape.has_own_connections = shape.rank_count != 2 || !request.on_one_node();
  // Scratch: a sum on its way to several peers, and what CopyProgress needs.
  shape.plan_bytes = (shape.rank_count > 2 ? uint64_t{shape.geometry.slot_bytes} : 0) + CopyProgress::scratch_bytes;
  shape.cleared = false;  // flags are elsewhere
  request.on_one_node() ? add_copied_messages(shape, request, halvings) : use_message_links(request, shape);
  return shape;
}

/// Returns a copy of the request with other settings.
PlacedRequest with_settings(const PlacedRequest &from, const Settings &settings) {
  const InitContext context{from.rank,   from.rank_count, settings,        from.group,
                            from.secret, from.key_prefix, from.deadline_ns};
  return {{context, from.links, from.permitted, from.measured_load_store},
          from.executor,
          from.handles,
          from.handles_are_free,
          from.neighbours,
          from.shares_launches,
          from.apart,
          from.mps,
          from.one_process,
          from.peer_devices,
          from.shares_regions,
          from.pairs_apart,
          from.several_devices};
}

/// Returns the shape with the fewest halvings that is within max_memory_bytes.
template <class Shape>
Result<SegmentShape> fit(const PlacedRequest &request, Shape &&shape_at) {
  const auto shape_of = [&](const MemoryChoice &each) {
    Settings settings = request.settings;
    settings.slot_count = each.slot_count;
    settings.slot_bytes = each.slot_bytes;
    const PlacedRequest asked = with_settings(request, settings);
    return shape_at(asked, each.halvings);
  };
  RONDO_TRY_ASSIGN(const MemoryChoice choice,
                   choose_memory(request.settings, "of a rank's device memory",
                                 [&](const MemoryChoice &each) { return shape_of(each).bytes(); }));
  return shape_of(choice);
}

}  // namespace

Result<SegmentShape> choose_segment(const PlacedRequest &request, const ChannelCounts &channels, bool has_load_store) {
  return fit(request, [&](const PlacedRequest &asked, uint32_t halvings) {
    return shape_at(asked, channels, has_load_store, halvings);
  });
}

Result<SegmentShape> choose_copy_segment(const PlacedRequest &request) {
  return fit(request, copy_shape_at);
}

Result<SegmentMemory> plan_segment_memory(const Settings &settings, const BlockBudget &budget, uint32_t rank_count,
                                  bool on_one_device) {
  const GroupInfo one_host;
  PlacedRequest request{{{0, rank_count, settings, one_host}}};
  request.executor = RONDO_DEVICE_EXECUTOR_KERNEL;
  request.neighbours.in_process = on_one_device ? rank_count : 1;
  request.several_devices = !on_one_device;
  request.shares_regions = !on_one_device && request.is_free() && rank_count <= region_ranks_by_default;
  ChannelCounts channels = wanted_channels(request, budget, true);
  if (settings.channels == 0)
    channels.limit(static_cast<uint32_t>(share_of_rank(budget, {}, request.neighbours.in_process)));
  RONDO_TRY_ASSIGN(const SegmentShape shape, choose_segment(request, channels, wants_load_store(request)));
  SegmentMemory memory;
  memory.connections = shape.progress_offset();
  memory.places = shape.load_store.bytes();
  memory.messages = shape.regions_offset() - shape.message_connection_offset(0, 0);
  memory.plans = shape.plan_bytes;
  memory.all = shape.bytes();
  return memory;
}

}  // namespace rondo::cuda
