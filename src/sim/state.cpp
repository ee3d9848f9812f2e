// SPDX-License-Identifier: Apache-2.0
// This file compares states of a simulation. If a state repeats, the simulator skips the periods in between.
//
// All later actions of the engine are a function of this state:
// - each lane's position, and each wire's filled slots and credits
// - the time at which each resource is free
// - which ranks are on a core or in line for a core
// - the requests in the queue
//
// Tiles are counted relative to the guide, which is the first lane with steps. Times are relative to now, and slots to
// the wire's counters. If the state equals the state `period` tiles ago, the future also repeats, as long as all tiles
// are full. If requests wait in a queue, no slice begins before now, so the state omits how long a resource has been
// free. If no queue is needed, all lanes are at the same tile, and times are compared directly.
#include <algorithm>
#include <cassert>

#include "src/sim/engine.h"

namespace rondo::sim {
namespace {

constexpr uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 32)) * 0x9E37'79B9'7F4A'7C15u;
  return value ^ (value >> 29);
}

}  // namespace

int64_t Engine::since(int64_t time_ps, int64_t now_ps) const {
  return ordered_ ? time_ps - now_ps : std::max(time_ps, now_ps) - now_ps;
}

template <class Visit>
void Engine::visit_wire(uint32_t wire, int64_t now_ps, Visit visit) {
  const WireState &state = wires_[wire];
  if (state.posted == 0) return;  // later tiles do not use the wire, either
  visit(state.posted - state.consumed);
  visit(state.sent - state.consumed);
  visit(state.delivered - state.consumed);
  for (uint32_t counter = state.consumed; counter != state.posted; ++counter) {
    const Slot &filled = slot(wire, counter);
    visit(static_cast<int64_t>(filled.bytes));
    visit(filled.depth);
  }
  // A message between the ports is represented by the earliest arrival of its last byte.
  for (uint32_t counter = state.consumed; counter != state.sent; ++counter)
    visit(since(slot(wire, counter).arrival_ps, now_ps));
  for (uint32_t counter = state.posted; counter != state.consumed + slot_count_; ++counter)
    visit(since(slot(wire, counter).credit_ps, now_ps));
}

/// Visits every part of the state except the queue.
template <class Visit>
void Engine::visit_state(int64_t now_ps, Visit visit) {
  for (const LaneState &state : lanes_) {
    if (state.shape->steps.empty()) continue;
    visit(static_cast<int64_t>(state.tile - lanes_[guide_].tile));
    visit(static_cast<int64_t>(state.rest_bytes));
    visit(state.step);
    visit(state.depth);
    visit(state.step_depth);
    visit(state.waits_for_core ? 1 : 0);
    visit(since(state.free_ps, now_ps));
  }
  for (uint32_t wire = 0; wire < wires_.size(); ++wire) visit_wire(wire, now_ps, visit);
  for (const auto *resources : {&out_free_ps_, &out_full_ps_, &in_free_ps_})
    for (const int64_t free_ps : *resources)
      if (free_ps != 0) visit(since(free_ps, now_ps));
  for (const Pool &pool : pools_) {
    for (const Core &core : pool.cores) visit(core.idle ? 1 : 0), visit(core.rank);
    for (const uint32_t rank : pool.waiting) visit(rank);
    visit(static_cast<int64_t>(pool.ready.size()));
    for (const uint32_t lane : pool.ready) visit(lane);
  }
}

uint64_t Engine::hash_state(int64_t now_ps) {
  uint64_t hash = 0;
  visit_state(now_ps, [&](int64_t value) { hash = mix(hash + static_cast<uint64_t>(value)); });
  requests_.for_each([&](const Request &request) {  // a sum, because their order in memory is not part of the state
    const auto since_now = static_cast<uint64_t>(request.time_ps - now_ps);
    hash += mix(mix(since_now ^ uint64_t{request.target} << 40) + (request.order >> 32));
  });
  return hash;
}

Engine::Snapshot Engine::take_snapshot(int64_t now_ps) {
  Snapshot snapshot{{}, lanes_[guide_].tile, now_ps, outcome_.link_bytes};
  visit_state(now_ps, [&](int64_t value) { snapshot.state.push_back(value); });
  std::vector<Request> sorted;
  requests_.for_each([&](const Request &request) { sorted.push_back(request); });
  std::sort(sorted.begin(), sorted.end(), [](const Request &a, const Request &b) {
    return a.time_ps != b.time_ps ? a.time_ps < b.time_ps : a.order < b.order;
  });
  for (const Request &request : sorted) {
    snapshot.state.push_back(request.time_ps - now_ps);
    snapshot.state.push_back(static_cast<int64_t>(request.order >> 32));
    snapshot.state.push_back(request.target);
  }
  return snapshot;
}

/// Searches for a period when no lane can run, once for each tile of the guide (the first lane with steps). An equal
/// hash suggests that a state has returned. A comparison of the states themselves, a period apart, then proves it.
void Engine::look_for_period(int64_t now_ps) {
  const uint64_t tile = lanes_[guide_].tile;
  if (!use_period_ || skipped_ || tile == looked_tile_ || tile + 1 >= full_tile_count_) return;
  looked_tile_ = tile;
  if (snapshot_) {
    if (tile < confirm_tile_) return;
    const Snapshot now = take_snapshot(now_ps);
    if (tile == confirm_tile_ && now.state == snapshot_->state) skip(*snapshot_, now);
    snapshot_.reset();
    if (skipped_) return;
  }
  const auto [known, fresh] = seen_.emplace(hash_state(now_ps), tile);
  if (fresh) return;
  confirm_tile_ = tile + (tile - known->second);
  known->second = tile;
  snapshot_ = take_snapshot(now_ps);
}

void Engine::skip(const Snapshot &before, const Snapshot &now) {
  uint64_t most = 0;
  for (const LaneState &lane : lanes_) most = std::max(most, lane.tile);
  skipped_ = true;  // true even if nothing is left to skip
  if (most + 1 >= full_tile_count_) return;
  const uint64_t period_tiles = now.tile - before.tile;
  const uint64_t periods = (full_tile_count_ - 1 - most) / period_tiles;
  const int64_t period_ps = now.time_ps - before.time_ps;
  too_long_ = period_ps > 0 && periods > static_cast<uint64_t>((time_ps_max - now.time_ps) / period_ps);
  if (too_long_) return;
  const uint64_t tiles = periods * period_tiles;
  for (LaneState &lane : lanes_)
    if (!lane.shape->steps.empty()) lane.tile += tiles;
  for (size_t link = 0; link < link_class_count; ++link)
    outcome_.link_bytes[link] += periods * (now.link_bytes[link] - before.link_bytes[link]);
  outcome_.skipped_tile_count = tiles;
  shift_times(static_cast<int64_t>(periods) * period_ps);
}

void Engine::shift_times(int64_t by_ps) {
  for (LaneState &lane : lanes_) lane.free_ps = after(lane.free_ps, by_ps);
  for (Slot &slot : slots_)
    for (int64_t *const time_ps : {&slot.arrival_ps, &slot.credit_ps}) *time_ps = after(*time_ps, by_ps);
  for (auto *times : {&out_free_ps_, &out_full_ps_, &in_free_ps_})
    for (int64_t &time_ps : *times) time_ps = after(time_ps, by_ps);
  requests_.shift_times(by_ps);
}

}  // namespace rondo::sim
