// SPDX-License-Identifier: Apache-2.0
#include "src/sim/engine.h"

#include <algorithm>
#include <cassert>
#include <string>

namespace rondo::sim {
namespace {

int64_t to_ps(double time_us) { return whole_ps(time_us * ps_per_us); }

/// The least number of tiles for which the search for a period pays.
constexpr uint64_t tiles_to_look_for = 4;

}  // namespace

Engine::Engine(const SimCase &what, const System &system)
    : system_(system),
      use_period_(what.use_period),
      ordered_(system.pool_sizes.empty()),
      slot_count_(what.network.slot_count),
      step_ps_(what.network.step_us * ps_per_us),
      reduce_ps_(ps_per_byte(what.network.reduce_GBps)),
      reduce_send_ps_(ps_per_byte(what.network.reduce_send_GBps)),
      copy_ps_(ps_per_byte(what.network.copy_GBps)),
      memory_ps_(ps_per_byte(what.network.memory_GBps)),
      switch_ps_(to_ps(what.network.switch_us)) {
  const bool ll = system.plan.protocol == RONDO_PROTOCOL_LL;
  wire_bytes_factor_ = ll ? 2 : 1;  // ll has a flag for every four bytes
  wire_bytes_extra_ = ll ? 8 : 0;   // ll has a signature for each slot
  for (size_t link = 0; link < link_class_count; ++link) {
    const LinkCost &cost = what.network.links[link];
    // The latency is at least 1 ps, because an effect must be later than its cause.
    alpha_ps_[link] = std::max<int64_t>(1, to_ps(ll ? cost.ll_alpha_us : cost.alpha_us));
    byte_ps_[link] = limited_byte_ps_[link] = ps_per_byte(cost.bandwidth_GBps);
    if (cost.burst_bytes <= 0) continue;
    byte_ps_[link] = ps_per_byte(cost.peak_GBps);
    burst_ps_[link] = std::max<int64_t>(1, whole_ps(cost.burst_bytes * limited_byte_ps_[link]));
  }
  for (const SimLane &lane : system.lanes) static_cast<SimLane &>(lanes_.emplace_back()) = lane;
  for (const SimWire &wire : system.wires) {
    static_cast<SimWire &>(wires_.emplace_back()) = wire;
    wires_.back().out_ordered = system.out_resources[wire.out].ordered;
    wires_.back().in_ordered = wire.in == no_index || system.in_resources[wire.in].ordered;
  }
  slots_.resize(system.wires.size() * slot_count_);
  out_free_ps_.resize(system.out_resources.size());
  out_full_ps_.resize(system.out_resources.size());
  in_free_ps_.resize(system.in_resources.size());
  fill_pools();
  for (const auto *resources : {&system.out_resources, &system.in_resources})
    for (const Resource &resource : *resources) ordered_ &= resource.ordered;
  full_tile_count_ = UINT64_MAX;
  for (const ChannelSizes &sizes : system.channels)
    full_tile_count_ = std::min(full_tile_count_, sizes.full_tile_count);
}

Result<Outcome> Engine::run(uint64_t move_count_max, const Moved &moved) {
  constexpr uint64_t told_every = 1u << 16;
  uint64_t served_count = 0;
  const auto gives_up = [&] { return !skipped_ && outcome_.move_count > move_count_max; };
  use_period_ = use_period_ && full_tile_count_ >= tiles_to_look_for;
  while (guide_ + 1 < lanes_.size() && lanes_[guide_].shape->steps.empty()) ++guide_;
  if (ordered_ && use_period_) tile_limit_ = 1;
  for (;;) {  // ends, as each round runs a tile, serves a request or is the last
    for (uint32_t lane = 0; lane < lanes_.size(); ++lane) wake(lane);
    drain();
    while (!requests_.empty() && !gives_up() && !too_long_) {
      const Request request = requests_.pop();
      serve(request);
      drain();
      if (++served_count % told_every == 0 && moved) moved(outcome_.move_count);
      look_for_period(request.time_ps);
    }
    if (tile_limit_ == UINT64_MAX || gives_up() || too_long_) break;
    look_for_period(lanes_[guide_].free_ps);
    tile_limit_ = skipped_ || tile_limit_ >= full_tile_count_ ? UINT64_MAX : tile_limit_ + 1;
  }
  if (too_long_) return too_long_to_tell();
  if (gives_up()) {
    outcome_.complete = false;
    return outcome_;
  }
  RONDO_TRY(check_done());
  for (const LaneState &lane : lanes_) outcome_.time_ps = std::max(outcome_.time_ps, lane.free_ps);
  return outcome_;
}

void Engine::wake(uint32_t lane) {
  if (lanes_[lane].queued) return;
  lanes_[lane].queued = true;
  runnable_.push_back(lane);
}

void Engine::drain() {
  while (!runnable_.empty()) {  // ends, as every slice is moved once
    const uint32_t lane = runnable_.back();
    runnable_.pop_back();
    lanes_[lane].queued = false;
    while (move(lane)) continue;
  }
}

bool Engine::done(const LaneState &lane) const {
  return lane.shape->steps.empty() || lane.tile >= system_.channels[lane.channel].tile_count;
}

uint32_t Engine::chunk_of(const SimLane &lane, const Step &step) const {
  const uint32_t chunk_count = system_.channels[lane.channel].chunk_count;
  const uint32_t chunk = step.chunk + lane.chunk_shift;
  return chunk >= chunk_count ? chunk - chunk_count : chunk;
}

/// Loads the next chunk that is not empty, like load_chunk() of the interpreter.
bool Engine::load(uint32_t lane) {
  LaneState &state = lanes_[lane];
  const ChannelSizes &sizes = system_.channels[state.channel];
  while (state.rest_bytes == 0) {  // ends after tiles * steps iterations
    if (state.step == state.shape->steps.size()) {
      state.step = 0, state.depth = 0;
      ++state.tile;
    }
    if (done(state) || state.tile >= tile_limit_) return false;
    const Step &step = state.shape->steps[state.step];
    state.rest_bytes = sizes.bytes(state.tile, chunk_of(state, step));
    state.step_depth = state.depth + 1;
    if (state.rest_bytes == 0) ++state.step;
  }
  return true;
}

int64_t Engine::cost_ps(const LaneState &lane, uint64_t bytes) const {
  const Step &step = lane.shape->steps[lane.step];
  uint32_t operands = ((step.flags & step_acc) != 0 ? 1 : 0) + ((step.flags & step_src) != 0 ? 1 : 0);
  if ((step.flags & step_recv) != 0) operands += step.recv_link[1] != no_link ? 2 : 1;
  double byte_ps = operands > 1 ? reduce_ps_ * (operands - 1) : copy_ps_;
  if (operands > 1 && (step.flags & step_send) != 0) byte_ps += reduce_send_ps_;
  if (!lane.shape->first_touches.empty()) byte_ps += memory_ps_ * lane.shape->first_touches[lane.step];
  return whole_ps(step_ps_ + byte_ps * static_cast<double>(bytes));
}

int64_t Engine::occupancy_ps(LinkClass link, uint64_t bytes) const {
  const double wire_bytes = wire_bytes_factor_ * static_cast<double>(bytes) + wire_bytes_extra_;
  return std::max<int64_t>(1, whole_ps(wire_bytes * byte_ps_[static_cast<size_t>(link)]));
}

int64_t Engine::limited_ps(LinkClass link, uint64_t bytes) const {
  const double wire_bytes = wire_bytes_factor_ * static_cast<double>(bytes) + wire_bytes_extra_;
  return whole_ps(wire_bytes * limited_byte_ps_[static_cast<size_t>(link)]);
}

/// Moves a slice, or queues it for a core. Returns false if the lane must wait.
bool Engine::move(uint32_t lane) {
  LaneState &state = lanes_[lane];
  if (too_long_ || state.waits_for_core || !load(lane)) return false;
  const Step &step = state.shape->steps[state.step];
  int64_t start_ps = state.free_ps;
  for (const LinkIndex link : step.recv_link) {
    if ((step.flags & step_recv) == 0 || link == no_link) continue;
    const uint32_t wire = system_.in_wire[state.link_base + link];
    if (wires_[wire].delivered == wires_[wire].consumed) return false;
    const Slot &received = slot(wire, wires_[wire].consumed);
    start_ps = std::max(start_ps, received.arrival_ps);
    state.step_depth = std::max(state.step_depth, received.depth + 1);
  }
  for (const LinkIndex link : step.send_link) {
    if ((step.flags & step_send) == 0 || link == no_link) continue;
    const uint32_t wire = system_.out_wire[state.link_base + link];
    if (wires_[wire].posted - wires_[wire].consumed >= slot_count_) return false;
    start_ps = std::max(start_ps, slot(wire, wires_[wire].posted).credit_ps);
  }
  const int64_t duration_ps = cost_ps(state, std::min(state.rest_bytes, system_.slot_bytes));
  if (state.pool != no_index && duration_ps > 0) {
    state.waits_for_core = true;
    requests_.push({start_ps, uint64_t{lane} << 32, lane});
    return false;
  }
  complete(lane, after(start_ps, duration_ps));
  return true;
}

void Engine::complete(uint32_t lane, int64_t end_ps) {
  LaneState &state = lanes_[lane];
  const Step &step = state.shape->steps[state.step];
  const uint64_t bytes = std::min(state.rest_bytes, system_.slot_bytes);
  for (const LinkIndex link : step.recv_link) {
    if ((step.flags & step_recv) == 0 || link == no_link) continue;
    const uint32_t wire = system_.in_wire[state.link_base + link];
    WireState &known = wires_[wire];
    slot(wire, known.consumed++).credit_ps = after(end_ps, alpha_ps_[static_cast<size_t>(known.link)]);
    if (known.sender != lane) wake(known.sender);
  }
  for (const LinkIndex link : step.send_link) {
    if ((step.flags & step_send) == 0 || link == no_link) continue;
    const uint32_t wire = system_.out_wire[state.link_base + link];
    Slot &filled = slot(wire, wires_[wire].posted++);
    filled.bytes = bytes;
    filled.depth = state.step_depth;
    post(wire, lane, end_ps);
  }
  state.free_ps = end_ps;
  too_long_ |= end_ps == time_ps_max;
  state.rest_bytes -= bytes;
  ++outcome_.move_count;
  if (state.rest_bytes != 0) return;
  state.depth = state.step_depth;
  outcome_.step_count = std::max(outcome_.step_count, state.depth);
  ++state.step;
}

void Engine::post(uint32_t wire, uint32_t lane, int64_t time_ps) {
  if (wires_[wire].out_ordered) {
    send(wire, time_ps);
    return;
  }
  constexpr uint64_t phase = uint64_t{static_cast<uint8_t>(Phase::out)} << 62;
  requests_.push({time_ps, phase | uint64_t{lane} << 32 | lanes_[lane].posts++, wire});
}

void Engine::send(uint32_t wire, int64_t time_ps) {
  WireState &known = wires_[wire];
  const auto link = static_cast<size_t>(known.link);
  Slot &leaving = slot(wire, known.sent++);
  const uint64_t bytes = leaving.bytes;
  outcome_.link_bytes[link] += bytes;
  int64_t &free_ps = out_free_ps_[known.out];
  const int64_t start_ps = std::max(time_ps, free_ps);
  free_ps = after(start_ps, occupancy_ps(known.link, bytes));
  if (burst_ps_[link] != 0) {
    int64_t &full_ps = out_full_ps_[known.out];
    full_ps = after(std::max(full_ps, start_ps), limited_ps(known.link, bytes));
    free_ps = std::max(free_ps, full_ps - burst_ps_[link]);
  }
  leaving.arrival_ps = after(free_ps, alpha_ps_[link]);  // the last byte arrives then, if the receiver's port is free
  const int64_t head_ps = after(start_ps, alpha_ps_[link]);
  if (known.in_ordered) {
    arrive(wire, head_ps);
    return;
  }
  constexpr uint64_t phase = uint64_t{static_cast<uint8_t>(Phase::in)} << 62;
  requests_.push({head_ps, phase | uint64_t{known.receiver} << 32 | known.receiver_link, wire});
}

void Engine::arrive(uint32_t wire, int64_t time_ps) {
  WireState &known = wires_[wire];
  Slot &arriving = slot(wire, known.delivered++);
  const int64_t start_ps = known.in == no_index ? time_ps : std::max(time_ps, in_free_ps_[known.in]);
  arriving.arrival_ps = std::max(arriving.arrival_ps, after(start_ps, occupancy_ps(known.link, arriving.bytes)));
  if (known.in != no_index) in_free_ps_[known.in] = arriving.arrival_ps;
  wake(known.receiver);
}

void Engine::serve(const Request &request) {
  switch (static_cast<Phase>(request.order >> 62)) {
    case Phase::core:
      return want_core(request.target, request.time_ps);
    case Phase::turn:
      return take_turn(request.target, static_cast<uint32_t>(request.order >> 32) & core_mask, request.time_ps);
    case Phase::out:
      return send(request.target, request.time_ps);
    case Phase::in:
      return arrive(request.target, request.time_ps);
  }
}

Result<void> Engine::check_done() const {
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane)
    if (!done(lanes_[lane]))
      return Error{RONDO_ERROR_INTERNAL, "the simulation came to a stop: rank " + std::to_string(lanes_[lane].rank) +
                                             ", channel " + std::to_string(lanes_[lane].channel) +
                                             " waits for ever at step " + std::to_string(lanes_[lane].step) +
                                             " of tile " + std::to_string(lanes_[lane].tile)};
  return {};
}

}  // namespace rondo::sim
