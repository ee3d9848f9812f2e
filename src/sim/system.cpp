// SPDX-License-Identifier: Apache-2.0
#include "src/sim/system.h"

#include <algorithm>
#include <bit>
#include <set>
#include <unordered_map>

#include "src/base/spelling.h"
#include "src/plan/block_lanes.h"

namespace rondo::sim {
namespace {

constexpr uint32_t align_bytes = 64;  // alignment of parts, as in plan.cpp

/// A new lane is compared with this number of the latest shapes.
constexpr size_t compared_shape_count = 16;

/// No rank's schedule has more than this number of times the steps of another rank's schedule.
constexpr uint64_t times_longer_max = 16;

Error too_many_steps() {
  return {RONDO_ERROR_UNSUPPORTED,
          "where chunks or nodes differ, too few ranks behave alike to simulate it in a short time"};
}

/// Returns the library's choice for exchanges of blocks. They use ll only if all ranks are on one host.
Result<PlanChoice> plan_of_blocks(const SimCase &what) {
  const Network &network = what.network;
  const PlanChoice &wanted = what.overrides;
  const bool by_ll = network.nodes.size() == 1 && wanted.protocol != RONDO_PROTOCOL_SIMPLE;
  const PlanChoice own = choose_for_blocks(what.bytes / network.rank_count(), network.slot_bytes,
                                           by_ll ? network.ll_slot_bytes : 0);
  const auto differs = [](auto asked, auto chosen) { return asked != decltype(asked){} && asked != chosen; };
  if (!differs(wanted.algorithm, own.algorithm) && !differs(wanted.protocol, own.protocol) &&
      !differs(wanted.kernel, own.kernel) && !differs(wanted.channels, own.channels) &&
      !differs(wanted.chunk_bytes, own.chunk_bytes))
    return own;
  return Error{RONDO_ERROR_UNSUPPORTED,
               std::string("in ") + rondo_collective_string(what.collective) +
                   ", each block goes directly from rank to rank, so there is nothing to choose except the protocol "
                   "simple for small blocks; leave the other options of the plan out"};
}

bool same_but_shifted(const Lane &steps, const Lane &known, uint32_t chunk_count, uint32_t *shift) {
  if (steps.size() != known.size()) return false;
  *shift = steps.empty() ? 0 : (uint32_t{steps[0].chunk} + chunk_count - known[0].chunk) % chunk_count;
  return std::equal(steps.begin(), steps.end(), known.begin(), [&](Step step, Step other) {
    const uint32_t chunk = other.chunk + *shift;
    other.chunk = static_cast<uint16_t>(chunk >= chunk_count ? chunk - chunk_count : chunk);
    return step == other;
  });
}

std::vector<uint8_t> count_first_touches(const Lane &steps) {
  std::vector<uint8_t> counts, seen(size_t{UINT16_MAX} + 1);  // `seen` has bits of flags, by chunk
  counts.reserve(steps.size());
  for (const Step &step : steps) {
    uint8_t buffers = step.flags & step_src;
    if ((step.flags & (step_acc | step_dst)) != 0) buffers |= step_dst;
    const uint8_t fresh = buffers & static_cast<uint8_t>(~seen[step.chunk]);
    seen[step.chunk] |= buffers;
    counts.push_back(static_cast<uint8_t>(std::popcount(fresh)));
  }
  return counts;
}

Shape make_shape(Lane steps, bool memory_costs) {
  Shape shape{std::move(steps), {}, {}, {}};
  if (memory_costs) shape.first_touches = count_first_touches(shape.steps);
  std::set<LinkIndex> send, recv;
  for (const Step &step : shape.steps) {
    if ((step.flags & step_send) != 0) send.insert(std::begin(step.send_link), std::end(step.send_link));
    if ((step.flags & step_recv) != 0) recv.insert(std::begin(step.recv_link), std::end(step.recv_link));
  }
  send.erase(no_link), recv.erase(no_link);
  shape.send_links.assign(send.begin(), send.end());
  shape.recv_links.assign(recv.begin(), recv.end());
  return shape;
}

/// Returns a number for the resource that a message passes. Two messages with equal numbers wait for each other.
uint64_t resource_key(Sharing sharing, bool within_node, const Placement &placement, uint32_t rank, uint32_t peer) {
  const uint64_t kind = (static_cast<uint64_t>(sharing) * 2 + (within_node ? 1 : 0)) << 60;
  switch (sharing) {
    case Sharing::pair: return kind | uint64_t{rank} << 30 | peer;
    case Sharing::rank: return kind | rank;
    case Sharing::nic: return kind | uint64_t{placement.node(rank)} << 30 | placement.nic(rank);
    case Sharing::node: return kind | placement.node(rank);
  }
  return kind;
}

/// Numbers keys in the order in which they occur.
class Numbering {
 public:
  uint32_t operator()(uint64_t key) { return found_.emplace(key, static_cast<uint32_t>(found_.size())).first->second; }
  [[nodiscard]] size_t count() const { return found_.size(); }

 private:
  std::unordered_map<uint64_t, uint32_t> found_;
};

class Builder {
 public:
  Builder(const SimCase &what, System *system) : what_(what), placement_(what.network), system_(*system) {}

  Result<void> build() {
    RONDO_TRY_ASSIGN(system_.plan, plan_of(what_));
    const bool ll = system_.plan.protocol == RONDO_PROTOCOL_LL;
    system_.slot_bytes = ll ? what_.network.ll_slot_bytes : what_.network.slot_bytes;
    system_.symmetry = {Symmetry::Kind::none, placement_.rank_count(), placement_.rank_count()};
    if (what_.use_symmetry) {
      RONDO_TRY_ASSIGN(system_.symmetry, find_symmetry(what_, system_.plan, placement_));
    }
    for (uint32_t rank = 0; rank < system_.symmetry.period; ++rank)
      for (uint32_t channel = 0; channel < system_.plan.channels; ++channel) RONDO_TRY(add_schedule(rank, channel));
    RONDO_TRY(connect());
    find_orders();
    return {};
  }

 private:
  [[nodiscard]] static uint64_t link_key(uint32_t rank, uint32_t channel, uint32_t peer) {
    return uint64_t{channel} << 48 | uint64_t{rank} << 24 | peer;  // unique, as ranks are below 2^20
  }

  Result<void> add_schedule(uint32_t rank, uint32_t channel) {
    const ScheduleArgs args{what_.collective, rank,           placement_.rank_count(),   what_.root,
                            channel,          what_.in_place, placement_.node_of_ranks()};
    RONDO_TRY_ASSIGN(Schedule schedule, build_schedule(system_.plan.algorithm, args));
    if (system_.channels.empty()) {
      system_.channels = channel_sizes(what_, system_.plan, schedule.chunk_count);
      // If the first schedule shows that there are far too many steps, no other schedule is built.
      uint64_t steps = 0;
      for (const Lane &lane : schedule.lanes) steps += lane.size();
      if (steps * system_.symmetry.period / times_longer_max > what_.step_count_max / system_.plan.channels)
        return too_many_steps();
    }
    const auto link_base = static_cast<uint32_t>(peers_.size());
    for (Lane &steps : schedule.lanes) {
      SimLane lane{nullptr, 0, rank, channel, link_base, pool_of(rank)};
      step_count_ += steps.size();
      if (step_count_ > what_.step_count_max) return too_many_steps();
      RONDO_TRY(find_shape(std::move(steps), schedule.chunk_count, &lane));
      add_wires(lane, schedule);
      system_.lanes.push_back(lane);
    }
    peers_.insert(peers_.end(), schedule.peers.begin(), schedule.peers.end());
    system_.out_wire.resize(peers_.size(), no_index);
    system_.in_wire.resize(peers_.size(), no_index);
    return {};
  }

  Result<void> find_shape(Lane steps, uint32_t chunk_count, SimLane *lane) {
    size_t tries = 0;
    for (auto known = system_.shapes.rbegin(); known != system_.shapes.rend(); ++known) {
      if (++tries > compared_shape_count) break;
      lane->shape = &*known;
      if (same_but_shifted(steps, known->steps, chunk_count, &lane->chunk_shift)) return {};
    }
    lane->chunk_shift = 0;
    step_bytes_ += steps.size() * sizeof(Step);
    if (step_bytes_ > step_bytes_max)
      return invalid_argument(
          "the steps of these ranks need more than " + show_bytes(step_bytes_max) +
          " bytes, because no two of them behave alike; take bytes that divide evenly among the ranks, equal nodes and "
          "a number of ranks that is a power of two, or fewer ranks");
    lane->shape = &system_.shapes.emplace_back(make_shape(std::move(steps), what_.network.memory_GBps > 0));
    return {};
  }

  /// Adds the wires of the links on which the lane sends.
  void add_wires(const SimLane &lane, const Schedule &schedule) {
    const auto index = static_cast<uint32_t>(system_.lanes.size());
    system_.out_wire.resize(lane.link_base + schedule.peers.size(), no_index);
    for (const LinkIndex link : lane.shape->send_links) {
      const uint32_t peer = schedule.peers[link];
      SimWire wire;
      wire.sender = index;
      wire.link = placement_.link_class(lane.rank, peer);
      const Sharing sharing = what_.network.links[static_cast<size_t>(wire.link)].sharing;
      const bool within = wire.link <= LinkClass::intra_node;
      wire.out = outs_(resource_key(sharing, within, placement_, lane.rank, peer));
      const auto number = static_cast<uint32_t>(system_.wires.size());
      system_.out_wire[lane.link_base + link] = number;
      wire_of_[link_key(lane.rank, lane.channel, peer)] = number;
      system_.wires.push_back(wire);
    }
  }

  /// Finds the wire of each link on which a lane receives.
  Result<void> connect() {
    const Symmetry &symmetry = system_.symmetry;
    for (uint32_t index = 0; index < system_.lanes.size(); ++index) {
      const SimLane &lane = system_.lanes[index];
      for (const LinkIndex link : lane.shape->recv_links) {
        const uint32_t peer = peers_[lane.link_base + link];
        const auto found =
            wire_of_.find(link_key(symmetry.representative(peer), lane.channel, symmetry.seen(lane.rank, peer)));
        if (found == wire_of_.end())
          return Error{RONDO_ERROR_INTERNAL, "rank " + std::to_string(lane.rank) + " receives from rank " +
                                                 std::to_string(peer) + ", which does not send to it"};
        SimWire &wire = system_.wires[found->second];
        wire.receiver = index;
        wire.receiver_link = link;
        const Sharing sharing = what_.network.links[static_cast<size_t>(wire.link)].sharing;
        const bool within = wire.link <= LinkClass::intra_node;
        if (sharing != Sharing::pair && !(within && sharing == Sharing::node))
          wire.in = ins_(resource_key(sharing, within, placement_, lane.rank, peer));
        system_.in_wire[lane.link_base + link] = found->second;
      }
    }
    for (const SimWire &wire : system_.wires)
      if (wire.receiver == no_index)
        return Error{RONDO_ERROR_INTERNAL, "rank " + std::to_string(system_.lanes[wire.sender].rank) +
                                               " sends on a link that nobody receives from"};
    return {};
  }

  /// Finds the resources whose order of messages is known in advance. Messages leave a lane in the lane's order. If a
  /// resource gets messages from only one other resource, both have the same order.
  void find_orders() {
    struct Source {
      uint32_t first = no_index, link = no_index;
    };
    std::vector<Source> senders(outs_.count()), feeders(ins_.count());
    system_.out_resources.resize(outs_.count());
    system_.in_resources.resize(ins_.count());
    const auto note = [](Source *source, Resource *resource, uint32_t from, uint32_t link) {
      if (source->first == no_index) *source = {from, link};
      resource->ordered &= source->first == from && source->link == link;
    };
    for (const SimWire &wire : system_.wires) {
      note(&senders[wire.out], &system_.out_resources[wire.out], wire.sender, 0);
      if (wire.in != no_index)
        note(&feeders[wire.in], &system_.in_resources[wire.in], wire.out, static_cast<uint32_t>(wire.link));
    }
  }

  /// Returns the pool of cores of a rank. If a node has a core for each of its ranks, each rank has a pool of its own.
  /// Otherwise all ranks of the node share one pool.
  uint32_t pool_of(uint32_t rank) {
    const uint32_t core_count = what_.network.core_count;
    if (core_count == 0) return no_index;
    const bool own = placement_.node_at(rank).rank_count <= core_count;
    const uint32_t pool = pools_(own ? rank : uint64_t{1} << 32 | placement_.node(rank));
    if (pool == system_.pool_sizes.size()) system_.pool_sizes.push_back(own ? 1 : core_count);
    return pool;
  }

  const SimCase &what_;
  Placement placement_;
  System &system_;
  std::vector<uint32_t> peers_;  ///< indexed by link_base + link
  std::unordered_map<uint64_t, uint32_t> wire_of_;
  Numbering outs_, ins_, pools_;
  uint64_t step_bytes_ = 0, step_count_ = 0;
};

}  // namespace

bool ChannelSizes::even() const {
  return std::all_of(last.begin(), last.end(), [&](uint64_t bytes) { return bytes == last.front(); });
}

Result<PlanChoice> plan_of(const SimCase &what) {
  if (exchanges_blocks(what.collective)) return plan_of_blocks(what);
  TunerInput input;
  input.collective = what.collective;
  input.rank_count = static_cast<uint32_t>(what.network.rank_count());
  input.bytes = what.bytes;
  for (const SimNode &node : what.network.nodes)
    input.oversubscribed |= what.network.core_count != 0 && node.rank_count > what.network.core_count;
  // The library does the same: a plan for several hosts has no `ll` unless the caller requested it.
  input.host_count = static_cast<uint32_t>(what.network.nodes.size());
  const bool uses_ll = !input.several_hosts() || what.overrides.protocol == RONDO_PROTOCOL_LL;
  input.slot_count = what.network.slot_count;
  input.slot_bytes = what.network.slot_bytes;
  input.ll_slot_bytes = uses_ll ? what.network.ll_slot_bytes : 0;
  input.overrides = what.overrides;
  if (what.overrides.kernel == RONDO_KERNEL_LOAD_STORE && what.network.nodes.size() == 1) {
    input.post_bytes = what.network.post_bytes;
    input.exchange_chunk_bytes = what.network.exchange_chunk_bytes;
  }
  return choose_plan(input);
}

std::vector<ChannelSizes> channel_sizes(const SimCase &what, const PlanChoice &plan, uint32_t chunk_count) {
  std::vector<Range> blocks;
  const auto rank_count = static_cast<uint32_t>(what.network.rank_count());
  for (uint32_t rank = 0; rank < rank_count && in_blocks(what.collective); ++rank)
    blocks.push_back({what.bytes / rank_count * rank, what.bytes / rank_count});  // equal blocks, as the API makes them
  std::vector<ChannelSizes> all;
  for (uint32_t channel = 0; channel < plan.channels; ++channel) {
    Partition partition;
    partition.blocks = blocks.empty() ? nullptr : blocks.data();
    partition.whole = {0, what.bytes};
    partition.chunk_count = chunk_count;
    partition.channel = channel;
    partition.channel_count = plan.channels;
    partition.align_elements = align_bytes;
    partition.chunk_elements = plan.chunk_bytes;
    ChannelSizes sizes;
    sizes.chunk_count = chunk_count;
    sizes.chunk_bytes = plan.chunk_bytes;
    sizes.tile_count = partition.count_tiles();
    sizes.full_tile_count = sizes.tile_count == 0 ? 0 : sizes.tile_count - 1;
    for (uint32_t chunk = 0; chunk < chunk_count; ++chunk)
      sizes.last.push_back(sizes.tile_count == 0 ? 0 : partition.range(sizes.tile_count - 1, chunk).count);
    all.push_back(std::move(sizes));
  }
  return all;
}

Result<System> build_system(const SimCase &what) {
  System system;
  RONDO_TRY(check_network(what.network));
  RONDO_TRY(Builder(what, &system).build());
  return system;
}

}  // namespace rondo::sim
