// SPDX-License-Identifier: Apache-2.0
#include "src/sim/simulate.h"

#include "src/sim/engine.h"

namespace rondo::sim {
namespace {

// Large trees take hundreds of tiles until their state repeats, although their speed is constant long before. So cases
// with more than many_tiles tiles and many moves are extrapolated. Two shorter cases are simulated, and their
// difference gives the speed. docs/simulator.md states the error, compared with a simulation of every tile.
constexpr uint64_t many_tiles = 96, short_tiles = 32, long_tiles = 64;
constexpr uint64_t many_moves = 8'000'000;

/// Returns the number of moves in one full tile.
uint64_t tile_moves(const System &system) {
  uint64_t steps = 0;
  for (const SimLane &lane : system.lanes) steps += lane.shape->steps.size();
  return steps * ((system.plan.chunk_bytes + system.slot_bytes - 1) / system.slot_bytes);
}

uint64_t tile_count_of(const System &system) {
  uint64_t most = 0;
  for (const ChannelSizes &sizes : system.channels) most = std::max(most, sizes.tile_count);
  return most;
}

}  // namespace

Simulator::Key Simulator::key_of(const SimCase &what, const PlanChoice &plan) {
  return {{static_cast<uint64_t>(what.collective) << 32 | what.root, what.bytes,
           static_cast<uint64_t>(plan.algorithm) << 32 | static_cast<uint64_t>(plan.kernel) << 16 |
               static_cast<uint64_t>(plan.protocol),
           plan.channels,
           plan.chunk_bytes, what.use_symmetry, what.use_period},
          what.in_place};
}

Result<SimResult> Simulator::simulate(const SimCase &what) {
  RONDO_TRY(check_network(what.network));
  RONDO_TRY_ASSIGN(const PlanChoice plan, plan_of(what));
  const auto known = found_.find(key_of(what, plan));
  if (known != found_.end()) return known->second;
  if (plan.kernel == RONDO_KERNEL_LOAD_STORE) {
    SimResult result{plan, {}, static_cast<uint32_t>(what.network.rank_count()), true};
    RONDO_TRY_ASSIGN(result.outcome, simulate_load_store(what, plan));
    found_.emplace(key_of(what, plan), result);
    return result;
  }
  RONDO_TRY_ASSIGN(const System system, build_system(what));
  const uint64_t moves = tile_moves(system), tiles = tile_count_of(system);
  const bool many = what.use_period && tiles > many_tiles && moves * tiles > many_moves;
  moves_expected_ = std::max<uint64_t>(moves * (many ? short_tiles + long_tiles : tiles), 1);
  moves_made_ = 0;
  auto result = run(what, system, many ? many_moves / 4 : UINT64_MAX);
  if (result.ok() && !result.value().exact) result = extrapolate(what, system);
  if (result.ok()) found_.emplace(key_of(what, plan), result.value());
  return result;
}

Result<SimResult> Simulator::run(const SimCase &what, const System &system, uint64_t move_count_max) {
  SimResult result{system.plan, {}, system.symmetry.period, true};
  // The limit allows fewer than short_tiles tiles. A large system reaches no period within them.
  if (move_count_max / short_tiles < tile_moves(system)) {
    result.exact = false;
    return result;
  }
  const auto moved = [this](uint64_t move_count) {
    const double part = static_cast<double>(moves_made_ + move_count) / static_cast<double>(moves_expected_);
    if (watcher_) watcher_(std::min(part, 1.0));
  };
  RONDO_TRY_ASSIGN(result.outcome, Engine(what, system).run(move_count_max, moved));
  moves_made_ += result.outcome.move_count;
  result.exact = result.outcome.complete;
  for (uint64_t &bytes : result.outcome.link_bytes) bytes *= system.copies();
  return result;
}

/// Simulates the case with only `tile_count` tiles. The last tile keeps its size.
Result<SimResult> Simulator::shorter(SimCase what, const System &system, uint64_t tile_count) {
  const uint64_t tile_bytes = system.plan.chunk_bytes * system.channels[0].chunk_count * system.plan.channels;
  what.bytes -= (tile_count_of(system) - tile_count) * tile_bytes;
  what.overrides = system.plan;
  const auto known = found_.find(key_of(what, system.plan));
  if (known != found_.end()) return known->second;
  RONDO_TRY_ASSIGN(const System less, build_system(what));
  RONDO_TRY_ASSIGN(const SimResult result, run(what, less, UINT64_MAX));
  found_.emplace(key_of(what, system.plan), result);
  return result;
}

Result<SimResult> Simulator::extrapolate(const SimCase &what, const System &system) {
  RONDO_TRY_ASSIGN(const SimResult some, shorter(what, system, short_tiles));
  RONDO_TRY_ASSIGN(SimResult result, shorter(what, system, long_tiles));
  const uint64_t tiles = tile_count_of(system);
  const double times = static_cast<double>(tiles - long_tiles) / static_cast<double>(long_tiles - short_tiles);
  Outcome &outcome = result.outcome;
  outcome.time_ps =
      after(outcome.time_ps, whole_ps(times * static_cast<double>(outcome.time_ps - some.outcome.time_ps)));
  if (outcome.time_ps == time_ps_max) return too_long_to_tell();
  for (size_t link = 0; link < link_class_count; ++link)
    outcome.link_bytes[link] +=
        (outcome.link_bytes[link] - some.outcome.link_bytes[link]) / (long_tiles - short_tiles) * (tiles - long_tiles);
  outcome.skipped_tile_count += tiles - long_tiles;
  result.exact = false;
  return result;
}

}  // namespace rondo::sim
