// SPDX-License-Identifier: Apache-2.0
// This file implements the model of docs/simulator.md a second time, as plainly as possible, for comparison in tests.
// It simulates every rank and every slice with an ordered set of events. It takes no short cuts.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "src/sim/system.h"

namespace rondo::sim {

class Reference {
 public:
  explicit Reference(const SimCase &what, const PlanChoice &plan) : what_(what), plan_(plan), place_(what.network) {
    const bool ll = plan.protocol == RONDO_PROTOCOL_LL;
    slot_bytes_ = ll ? what.network.ll_slot_bytes : what.network.slot_bytes;
    for (uint32_t rank = 0; rank < place_.rank_count(); ++rank)
      for (uint32_t channel = 0; channel < plan.channels; ++channel) {
        auto built = build_schedule(plan.algorithm,
                                    {what.collective, rank, place_.rank_count(), what.root, channel, what.in_place,
                                     place_.node_of_ranks()});
        schedules_.push_back(std::move(built).value());
        const Schedule &schedule = schedules_.back();
        if (sizes_.empty()) sizes_ = channel_sizes(what, plan, schedule.chunk_count);
        for (const Lane &steps : schedule.lanes) lanes_.push_back({rank, channel, &schedule.peers, steps});
      }
    share_cores();
  }

  /// Returns the time, or -1 if the lanes stopped before the end.
  int64_t run() {
    for (size_t lane = 0; lane < lanes_.size(); ++lane) events_.insert({0, 0, lane, 0, {}});
    while (!events_.empty()) {
      const Event event = *events_.begin();
      events_.erase(events_.begin());
      if (event.phase == 0) try_lane(event.actor, event.time_ps);
      if (event.phase == 1) leave(event);
      if (event.phase == 2) enter(event);
      if (event.phase == 3) turn(event.actor, event.order, event.time_ps);
    }
    int64_t end_ps = 0;
    for (const LaneAt &lane : lanes_) {
      if (!lane.steps.empty() && lane.tile < sizes_[lane.channel].tile_count) return -1;
      end_ps = std::max(end_ps, lane.free_ps);
    }
    return end_ps;
  }

 private:
  using LinkKey = std::tuple<uint32_t, uint32_t, uint32_t>;  ///< channel, from, to
  struct LaneAt {
    uint32_t rank, channel;
    const std::vector<uint32_t> *peers;
    Lane steps;
    uint64_t tile = 0, step = 0, rest = 0, posts = 0;
    int64_t free_ps = 0;
    bool wants_core = false;
  };
  /// Cores on which ranks take turns: all cores of a node, or the core of one rank.
  struct Cores {
    std::vector<uint32_t> running;  ///< core -> rank
    std::vector<bool> turning;      ///< whether an event for the core exists
    std::deque<uint32_t> line;      ///< ranks that have no core now
    std::list<size_t> ready;        ///< lanes
  };
  struct Link {
    std::deque<int64_t> arrivals;
    std::deque<uint64_t> sizes, on_way;  ///< sizes of slots: posted, and between the two ports
    std::deque<int64_t> ends;            ///< for slots between the ports: when the last byte can arrive
    std::deque<int64_t> credits;         ///< times at which slots are credited
    uint64_t unused = 0;                 ///< slots that were never used
    size_t sender = 0, receiver = 0;
    uint32_t receiver_link = 0;
  };
  struct Event {
    int64_t time_ps;
    int phase;
    size_t actor;
    uint64_t order;
    LinkKey link;
    bool operator<(const Event &o) const {
      return std::tie(time_ps, phase, actor, order, link) < std::tie(o.time_ps, o.phase, o.actor, o.order, o.link);
    }
  };

  Link &link(uint32_t channel, uint32_t from, uint32_t to) {
    auto [found, fresh] = links_.try_emplace(LinkKey{channel, from, to});
    if (fresh) found->second.unused = what_.network.slot_count;
    return found->second;
  }
  LinkClass kind(const LinkKey &key) const { return place_.link_class(std::get<1>(key), std::get<2>(key)); }
  const LinkCost &cost(const LinkKey &key) const { return what_.network.links[static_cast<size_t>(kind(key))]; }
  int64_t alpha(const LinkKey &key) const {
    const bool ll = plan_.protocol == RONDO_PROTOCOL_LL;
    return std::max<int64_t>(1, std::llround((ll ? cost(key).ll_alpha_us : cost(key).alpha_us) * 1e6));
  }
  int64_t bytes_span(uint64_t bytes, double GBps) const {
    const bool ll = plan_.protocol == RONDO_PROTOCOL_LL;
    const double on_wire = ll ? 2.0 * static_cast<double>(bytes) + 8 : static_cast<double>(bytes);
    return static_cast<int64_t>(on_wire * (1e3 / GBps) + 0.5);
  }
  /// Returns how long the bytes take on a port.
  int64_t span(const LinkKey &key, uint64_t bytes) const {
    const bool limited = cost(key).burst_bytes > 0;
    return std::max<int64_t>(1, bytes_span(bytes, limited ? cost(key).peak_GBps : cost(key).bandwidth_GBps));
  }
  std::string port(const LinkKey &key, bool in) const {
    const uint32_t rank = in ? std::get<2>(key) : std::get<1>(key);
    const bool within = kind(key) <= LinkClass::intra_node;
    const std::string side = within ? "within" : "without";
    switch (cost(key).sharing) {
      case Sharing::pair:
        return in ? "" : side + std::to_string(std::get<1>(key)) + ">" + std::to_string(std::get<2>(key));
      case Sharing::rank:
        return side + " rank " + std::to_string(rank) + (in ? " in" : " out");
      case Sharing::nic:
        return side + " nic " + std::to_string(place_.node(rank)) + "." + std::to_string(place_.nic(rank)) +
               (in ? " in" : " out");
      case Sharing::node:
        if (within) return in ? "" : "bus " + std::to_string(place_.node(rank));
        return "node " + std::to_string(place_.node(rank)) + (in ? " in" : " out");
    }
    return "";
  }

  void share_cores() {
    const uint32_t core_count = what_.network.core_count;
    cores_of_.resize(place_.rank_count());
    uint32_t rank = 0;
    for (const SimNode &node : what_.network.nodes) {
      const bool own = node.rank_count <= core_count;
      for (uint32_t local = 0; local < node.rank_count && core_count != 0; ++local) {
        if (own || local == 0) cores_.push_back({});
        Cores &cores = cores_.back();
        cores_of_[rank + local] = cores_.size() - 1;
        if (own || local < core_count)
          cores.running.push_back(rank + local);
        else
          cores.line.push_back(rank + local);
        cores.turning.resize(cores.running.size());
      }
      rank += node.rank_count;
    }
  }

  void try_lane(size_t index, int64_t now_ps) {
    LaneAt &lane = lanes_[index];
    while (!lane.wants_core && now_ps >= lane.free_ps && can_go_on(index, now_ps)) {
      const int64_t work_ps = work(lane, std::min(lane.rest, slot_bytes_));
      if (cores_.empty() || work_ps == 0) {
        go_on(index, now_ps, now_ps + work_ps);
        continue;
      }
      lane.wants_core = true;
      Cores &cores = cores_[cores_of_[lane.rank]];
      cores.ready.push_back(index);
      for (size_t core = 0; core < cores.running.size(); ++core)
        if (!cores.turning[core]) plan_turn(cores_of_[lane.rank], core, now_ps);
    }
  }

  void plan_turn(size_t where, size_t core, int64_t time_ps) {
    cores_[where].turning[core] = true;
    events_.insert({time_ps, 3, where, core, {}});
  }

  void turn(size_t where, size_t core, int64_t now_ps) {
    Cores &cores = cores_[where];
    uint32_t &running = cores.running[core];
    cores.turning[core] = false;
    for (auto it = cores.ready.begin(); it != cores.ready.end(); ++it) {
      const size_t index = *it;
      if (lanes_[index].rank != running) continue;
      cores.ready.erase(it);
      lanes_[index].wants_core = false;
      const int64_t end_ps = now_ps + work(lanes_[index], std::min(lanes_[index].rest, slot_bytes_));
      go_on(index, now_ps, end_ps);
      plan_turn(where, core, end_ps);
      return;
    }
    for (const size_t index : cores.ready)
      for (const uint32_t rank : cores.line)
        if (rank == lanes_[index].rank) cores.turning[core] = true;
    if (!cores.turning[core]) return;
    cores.line.push_back(running);
    running = cores.line.front();
    cores.line.pop_front();
    plan_turn(where, core, now_ps + std::llround(what_.network.switch_us * 1e6));
  }

  struct Ends {
    std::vector<Link *> from, to;
    std::vector<LinkKey> to_keys;
  };
  Ends ends_of(size_t index) {
    LaneAt &lane = lanes_[index];
    const Step &step = lane.steps[lane.step];
    Ends ends;
    for (int i = 0; i < 2; ++i) {
      if ((step.flags & step_recv) != 0 && step.recv_link[i] != no_link) {
        ends.from.push_back(&link(lane.channel, (*lane.peers)[step.recv_link[i]], lane.rank));
        ends.from.back()->receiver = index, ends.from.back()->receiver_link = step.recv_link[i];
      }
      if ((step.flags & step_send) != 0 && step.send_link[i] != no_link) {
        ends.to_keys.push_back({lane.channel, lane.rank, (*lane.peers)[step.send_link[i]]});
        ends.to.push_back(&link(lane.channel, lane.rank, std::get<2>(ends.to_keys.back())));
        ends.to.back()->sender = index;
      }
    }
    return ends;
  }

  bool can_go_on(size_t index, int64_t now_ps) {
    if (!load(lanes_[index])) return false;
    const Ends ends = ends_of(index);
    for (const Link *it : ends.from)
      if (it->arrivals.empty() || it->arrivals.front() > now_ps) return false;
    for (const Link *it : ends.to)
      if (it->unused == 0 && (it->credits.empty() || it->credits.front() > now_ps)) return false;
    return true;
  }

  void go_on(size_t index, int64_t now_ps, int64_t end_ps) {
    LaneAt &lane = lanes_[index];
    Ends ends = ends_of(index);
    const uint64_t bytes = std::min(lane.rest, slot_bytes_);
    for (Link *it : ends.from) it->arrivals.pop_front();
    for (Link *it : ends.from) {
      const LinkKey key{lane.channel, lanes_[it->sender].rank, lane.rank};
      it->credits.push_back(end_ps + alpha(key));
      events_.insert({it->credits.back(), 0, it->sender, 0, {}});
    }
    for (size_t i = 0; i < ends.to.size(); ++i) {
      if (ends.to[i]->unused > 0)
        --ends.to[i]->unused;
      else
        ends.to[i]->credits.pop_front();
      ends.to[i]->sizes.push_back(bytes);
      events_.insert({end_ps, 1, index, lane.posts++, ends.to_keys[i]});
    }
    lane.free_ps = end_ps;
    if ((lane.rest -= bytes) == 0) ++lane.step;
    if (end_ps > now_ps) events_.insert({end_ps, 0, index, 0, {}});
  }

  bool load(LaneAt &lane) {
    const ChannelSizes &sizes = sizes_[lane.channel];
    while (lane.rest == 0) {
      if (lane.step == lane.steps.size()) lane.step = 0, ++lane.tile;
      if (lane.steps.empty() || lane.tile >= sizes.tile_count) return false;
      const uint32_t chunk = lane.steps[lane.step].chunk;
      lane.rest = lane.tile + 1 < sizes.tile_count ? sizes.chunk_bytes : sizes.last[chunk];
      if (lane.rest == 0) ++lane.step;
    }
    return true;
  }

  /// Returns how many of its two buffers the lane accesses for the first time in this chunk.
  static int first_touches(const LaneAt &lane) {
    const auto buffers = [&](const Step &step) {
      if (step.chunk != lane.steps[lane.step].chunk) return 0;
      return ((step.flags & step_src) != 0 ? 1 : 0) + ((step.flags & (step_acc | step_dst)) != 0 ? 2 : 0);
    };
    int fresh = buffers(lane.steps[lane.step]);
    for (uint32_t before = 0; before < lane.step; ++before) fresh &= ~buffers(lane.steps[before]);
    return fresh % 2 + fresh / 2;
  }

  int64_t work(const LaneAt &lane, uint64_t bytes) const {
    const Step &step = lane.steps[lane.step];
    int operands = ((step.flags & step_acc) != 0) + ((step.flags & step_src) != 0);
    if ((step.flags & step_recv) != 0) operands += step.recv_link[1] != no_link ? 2 : 1;
    const Network &net = what_.network;
    const double reduce = net.reduce_GBps > 0 ? 1e3 / net.reduce_GBps : 0,
                 copy = net.copy_GBps > 0 ? 1e3 / net.copy_GBps : 0;
    double byte_ps = operands > 1 ? reduce * (operands - 1) : copy;
    if (operands > 1 && (step.flags & step_send) != 0 && net.reduce_send_GBps > 0)
      byte_ps += 1e3 / net.reduce_send_GBps;
    if (net.memory_GBps > 0) byte_ps += 1e3 / net.memory_GBps * first_touches(lane);
    return static_cast<int64_t>(net.step_us * 1e6 + byte_ps * static_cast<double>(bytes) + 0.5);
  }

  void leave(const Event &event) {
    Link &it = links_.at(event.link);
    const uint64_t bytes = it.sizes.front();
    it.sizes.pop_front();
    it.on_way.push_back(bytes);
    int64_t &free_ps = ports_[port(event.link, false)];
    const int64_t start_ps = std::max(free_ps, event.time_ps);
    free_ps = start_ps + span(event.link, bytes);
    if (cost(event.link).burst_bytes > 0) {
      // Each byte takes a token. The bucket of a port is represented by the time at which it will be full.
      int64_t &full_ps = full_[port(event.link, false)];
      full_ps = std::max(full_ps, start_ps) + bytes_span(bytes, cost(event.link).bandwidth_GBps);
      const double bucket_ps = cost(event.link).burst_bytes * (1e3 / cost(event.link).bandwidth_GBps);
      free_ps = std::max(free_ps, full_ps - std::max<int64_t>(1, std::llround(bucket_ps)));
    }
    it.ends.push_back(free_ps + alpha(event.link));
    if (it.receiver == 0 && it.receiver_link == 0) find_receiver(event.link, it);
    events_.insert({start_ps + alpha(event.link), 2, it.receiver, it.receiver_link, event.link});
  }

  /// Finds the receiving lane, even if it has not checked the link yet.
  void find_receiver(const LinkKey &key, Link &it) {
    const auto &[channel, from, to] = key;
    for (size_t index = 0; index < lanes_.size(); ++index) {
      if (lanes_[index].rank != to || lanes_[index].channel != channel) continue;
      for (const Step &step : lanes_[index].steps)
        for (const LinkIndex in : step.recv_link)
          if ((step.flags & step_recv) != 0 && in != no_link && (*lanes_[index].peers)[in] == from)
            it.receiver = index, it.receiver_link = in;
    }
  }

  void enter(const Event &event) {
    Link &it = links_.at(event.link);
    const uint64_t bytes = it.on_way.front();
    it.on_way.pop_front();
    int64_t start_ps = event.time_ps;
    const std::string name = port(event.link, true);
    if (!name.empty()) start_ps = std::max(start_ps, ports_[name]);
    const int64_t arrival_ps = std::max(start_ps + span(event.link, bytes), it.ends.front());
    it.ends.pop_front();
    if (!name.empty()) ports_[name] = arrival_ps;
    it.arrivals.push_back(arrival_ps);
    events_.insert({arrival_ps, 0, it.receiver, 0, {}});
  }

  const SimCase &what_;
  PlanChoice plan_;
  Placement place_;
  uint64_t slot_bytes_ = 1;
  std::deque<Schedule> schedules_;
  std::vector<ChannelSizes> sizes_;
  std::deque<LaneAt> lanes_;
  std::map<LinkKey, Link> links_;
  std::map<std::string, int64_t> ports_, full_;
  std::vector<Cores> cores_;
  std::vector<size_t> cores_of_;  ///< rank -> its cores
  std::set<Event> events_;
};

}  // namespace rondo::sim
